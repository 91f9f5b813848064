#include "memopt/plan/codec_figures.h"

#include <ATen/ops/linspace.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "memopt/codecs/codecs.h"
#include "memopt/codecs/host_offload.h"

namespace noisemark::memopt {
namespace {

constexpr int64_t kElements = 1 << 20;

CodecFigure figure_of(const Codec& codec) {
  RecordedValue value;
  value.sizes = {1024, 1024};
  value.strides = {1024, 1};
  return measured_codec_figures(at::kCPU)(codec, value);
}

TEST(CodecFigures, have_the_bits_of_each_form) {
  const auto bits = [](const Codec& codec) {
    return 8.0 * static_cast<double>(figure_of(codec).bytes) / kElements;
  };
  // A row of words is filled up: far less than a hundredth of a bit.
  EXPECT_NEAR(bits(*make_mask_codec()), 1, 0.01);
  EXPECT_NEAR(bits(*make_narrow_codec()), 16, 0.01);
  EXPECT_NEAR(bits(*make_narrow_codec(at::kHalf)), 16, 0.01);
  EXPECT_NEAR(bits(*make_reduced_codec(8)), 8, 0.01);
}

TEST(CodecFigures, are_the_bytes_that_an_encoding_of_any_size_has) {
  std::vector<std::shared_ptr<const Codec>> codecs = {make_sign_codec(), make_sparse_codec(0.65),
                                                      make_reduced_codec(10), make_grouped_codec(2),
                                                      make_grouped_codec(4)};
  codecs.push_back(make_chained_codec(codecs[1], codecs[3], 2));
  for (const int64_t elements : {180, 481, 5121, 100'001}) {
    const at::Tensor x = at::relu(at::linspace(-1, 1, elements));
    RecordedValue value;
    value.sizes = {elements};
    for (const auto& codec : codecs) {
      const std::optional<Encoded> encoded = codec->encode(x, {});
      if (!encoded) continue;
      int64_t bytes = 0;
      for (const at::Tensor& part : encoded->parts) bytes += static_cast<int64_t>(part.nbytes());
      EXPECT_EQ(measured_codec_figures(at::kCPU)(*codec, value).bytes, bytes)
          << codec->form() << " of " << elements;
    }
  }
}

TEST(CodecFigures, tell_the_rooms_of_sparse_storage_apart) {
  for (const double room : {0.35, 0.5, 0.65, 0.8}) {
    const double bits =
        8.0 * static_cast<double>(figure_of(*make_sparse_codec(room)).bytes) / kElements;
    EXPECT_NEAR(bits, 1 + 1.0 / 32 + 32 * room, 0.01) << room;
  }
  const auto rounded = make_chained_codec(make_sparse_codec(0.5), make_reduced_codec(8), 2);
  EXPECT_NEAR(8.0 * static_cast<double>(figure_of(*rounded).bytes) / kElements,
              1 + 1.0 / 32 + 8 * 0.5, 0.01);
}

TEST(CodecFigures, of_pooling_maps_are_measured_on_a_map) {
  for (const int64_t padding : {0, 1}) {
    const auto codec = make_pool_map_codec({{33, 40}, {3, 3}, {2, 2}, {padding, padding}, {1, 1}});
    RecordedValue map;
    map.sizes = {4, 64, 16, 16};
    map.strides = {16384, 256, 16, 1};
    map.dtype = at::kLong;
    const CodecFigure figure = measured_codec_figures(at::kCPU)(*codec, map);
    EXPECT_NEAR(8.0 * static_cast<double>(figure.bytes) / (4 * 16384), 4, 0.05) << padding;
    EXPECT_GT(figure.encode_ns, 0);
    EXPECT_GT(figure.decode_ns, 0);
  }
}

TEST(CodecFigures, have_times_of_every_form_that_are_measured_once) {
  std::vector<std::unique_ptr<Codec>> codecs;
  codecs.push_back(make_mask_codec());
  codecs.push_back(make_narrow_codec());
  codecs.push_back(make_narrow_codec(at::kHalf));
  codecs.push_back(make_sparse_codec(0.35));
  codecs.push_back(make_reduced_codec(10));
  for (const std::unique_ptr<Codec>& codec : codecs) {
    const CodecFigure first = figure_of(*codec);
    EXPECT_GT(first.encode_ns, 0) << codec->form();
    EXPECT_GT(first.decode_ns, 0) << codec->form();
    EXPECT_EQ(figure_of(*codec).encode_ns, first.encode_ns) << codec->form();
  }
}

TEST(CodecFigures, of_host_memory_are_found_in_what_room_it_has_and_leave_no_trace) {
  const auto host = make_host_offload(c10::Device("cpu"), 200'000);
  const CodecFigure figure = figure_of(*host);
  EXPECT_GT(figure.encode_ns, 0);
  EXPECT_EQ(figure.bytes, kElements * 4) << "on a CPU the host's memory is the device's";
  EXPECT_TRUE(host->take_refused().empty());
  EXPECT_EQ(host->usage().held_bytes, 0);
}

TEST(CodecFigures, of_a_codec_that_takes_nothing_are_those_of_the_tensor) {
  const auto host = make_host_offload(c10::Device("cpu"), 1);
  const CodecFigure figure = figure_of(*host);
  EXPECT_EQ(figure.bytes, kElements * 4);
  EXPECT_EQ(figure.encode_ns, 0);
}

}  // namespace
}  // namespace noisemark::memopt
