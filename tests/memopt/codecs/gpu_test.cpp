#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Device.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "memopt/codecs/codecs.h"
#include "memopt/codecs/host_offload.h"
#include "tests/gpu.h"
#include "tests/memopt/codecs/bits.h"

// The GPU's kernels against the CPU's, bit for bit: parts and decoded tensors.
namespace noisemark::memopt {
namespace {

using test::same_bits;

const EncodeKey kKey{0x123456789abc, 11, 13};
constexpr int64_t kMiB = 1 << 20;

Encoded on_cpu(const Encoded& encoded) {
  Encoded copy = encoded;
  copy.answer.reset();
  for (at::Tensor& part : copy.parts) part = part.cpu();
  return copy;
}

void expect_as_on_cpu(const Codec& codec, const at::Tensor& x, const std::string& what) {
  const auto expected = codec.encode(x, kKey);
  const auto encoded = codec.encode(x.to(kGpu), kKey);
  if (!expected) {
    // If only the values forbid it, a GPU says so by its answer.
    EXPECT_TRUE(!encoded || (encoded->answer != nullptr &&
                             encoded->answer->wait() == DeviceAnswer::State::kLost))
        << what;
    return;
  }
  ASSERT_TRUE(encoded) << what;
  if (encoded->answer != nullptr) {
    EXPECT_EQ(encoded->answer->wait(), DeviceAnswer::State::kHolds) << what;
  }
  for (const at::Tensor& part : encoded->parts) EXPECT_EQ(part.device(), kGpu);
  EXPECT_TRUE(test::same_parts(on_cpu(*encoded), *expected)) << what;
  EXPECT_TRUE(same_bits(codec.decode(*encoded).cpu(), codec.decode(*expected))) << what;
}

struct Subject {
  std::string name;
  const Codec& codec;
  at::Tensor input(at::IntArrayRef sizes) const {
    return test::suitable_for(name, test::normals(sizes));
  }
};

void ask_all(const std::function<void(const Subject& subject)>& question) {
  for (const test::NamedCodec& named : test::all_codecs()) {
    SCOPED_TRACE(named.name);
    question({named.name, *named.codec});
  }
}

TEST(GpuCodec, gives_the_cpus_bits_at_every_length_around_a_block) {
  ask_all([](const Subject& s) {
    for (const int64_t count :
         {1, 500, 959, 960, 961, 1023, 1024, 1025, 2049, 123'457, 3'000'001}) {
      expect_as_on_cpu(s.codec, s.input({count}), std::to_string(count));
    }
  });
}

TEST(GpuCodec, gives_the_cpus_bits_for_every_layout_and_type) {
  ask_all([](const Subject& s) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kBool, at::kDouble}) {
      const at::Tensor x = s.input({5, 37, 19, 13}).to(type);
      expect_as_on_cpu(s.codec, x, "planes");
      expect_as_on_cpu(s.codec, test::in_memory_order(x, {0, 2, 3, 1}), "channels last");
      expect_as_on_cpu(s.codec, test::in_memory_order(x, {3, 1, 0, 2}), "transposed");
    }
  });
}

TEST(GpuCodec, gives_the_cpus_bits_for_every_kind_of_value) {
  ask_all([](const Subject& s) {
    const std::vector<uint32_t> classes = test::float_classes();
    for (size_t period = 1; period <= classes.size(); period += 7) {
      std::vector<uint32_t> floats(5000, 0);
      std::vector<uint16_t> halves(5000, 0);
      for (size_t i = 0; i < floats.size(); i += 3) {
        floats[i] = classes[i % period];
        halves[i] = static_cast<uint16_t>(floats[i] >> 16);
      }
      const std::string what = "classes repeated every " + std::to_string(period);
      expect_as_on_cpu(s.codec, test::float_tensor(floats), what);
      expect_as_on_cpu(s.codec, test::half_tensor(halves, at::kBFloat16), what);
      expect_as_on_cpu(s.codec, test::half_tensor(halves, at::kHalf), what);
    }
    std::vector<uint16_t> all(1 << 16);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    expect_as_on_cpu(s.codec, test::half_tensor(all, at::kBFloat16), "all of bfloat16");
    expect_as_on_cpu(s.codec, test::half_tensor(all, at::kHalf), "all of float16");
  });
}

/// More blocks than one group of threads adds up the offsets of.
TEST(GpuSparse, gives_the_cpus_bits_where_many_blocks_come_before) {
  const at::Tensor x = at::relu(test::normals({20'000'001}));
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    expect_as_on_cpu(*make_sparse_codec(0.6), x.to(type), "room for all");
    expect_as_on_cpu(*make_sparse_codec(0.4), x.to(type), "no room for all");
  }
}

TEST(GpuSparse, begins_anew_with_every_tensor) {
  const auto codec = make_sparse_codec(0.6);
  for (const int64_t count : {3'000'001, 5000, 20'000'001, 2048}) {
    expect_as_on_cpu(*codec, at::relu(test::normals({count})), std::to_string(count));
  }
}

TEST(GpuMask, finds_the_other_value_wherever_it_is) {
  for (const int64_t place : {0, 31, 32, 4095, 777'777, 1'999'999}) {
    at::Tensor x = at::zeros({2'000'000});
    x[place] = 1.5;
    expect_as_on_cpu(*make_mask_codec(), x, std::to_string(place));
    expect_as_on_cpu(*make_mask_codec(), x.to(at::kBFloat16), std::to_string(place));
  }
}

TEST(GpuAnswer, is_loss_when_one_value_does_not_fit) {
  at::Tensor third = at::ones({100'000});
  third[0] = 0;
  third[99'999] = 2;
  expect_as_on_cpu(*make_mask_codec(), third, "a third value");
  at::Tensor longer = at::ones({100'000});
  longer[77'777] = 1 + 0x1p-20;
  expect_as_on_cpu(*make_narrow_codec(), longer, "one bit too many");
  at::Tensor full = at::zeros({100'000});
  full.narrow(0, 5'000, 50'000).fill_(1);
  expect_as_on_cpu(*make_sparse_codec(0.5), full, "as many as there is room for");
  full[99'999] = 1;
  expect_as_on_cpu(*make_sparse_codec(0.5), full, "one more");
  const auto lost = make_sparse_codec(0.5)->encode(full.to(kGpu), kKey);
  EXPECT_THROW((void)make_sparse_codec(0.5)->decode(lost.value()), c10::Error);
}

TEST(GpuAnswer, is_none_of_what_is_known_to_have_been_narrow) {
  for (const at::ScalarType to : {at::kBFloat16, at::kHalf}) {
    EncodeKey cast = kKey;
    cast.cast_from = to;
    const auto codec = make_narrow_codec(to);
    const at::Tensor x = test::normals({100'003}).to(to).to(at::kFloat);
    const auto encoded = codec->encode(x.to(kGpu), cast).value();
    EXPECT_EQ(encoded.answer, nullptr);
    EXPECT_TRUE(test::same_parts(on_cpu(encoded), codec->encode(x, kKey).value()));
    EXPECT_TRUE(same_bits(codec->decode(encoded).cpu(), x));
  }
}

TEST(GpuPoolMap, gives_the_cpus_bits) {
  const PoolGeometry g{{33, 21}, {3, 2}, {2, 2}, {1, 1}, {1, 2}};
  const at::Tensor x = test::normals({5, 37, 33, 21});
  for (const auto order : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor map = std::get<1>(at::max_pool2d_with_indices(
        x.contiguous(order), g.kernel, g.stride, g.padding, g.dilation));
    expect_as_on_cpu(*make_pool_map_codec(g), map, "map");
    at::Tensor wrong = map.clone();
    wrong[4][36][0][0] = 600;
    expect_as_on_cpu(*make_pool_map_codec(g), wrong, "an index outside its window");
  }
}

TEST(GpuOffload, brings_back_what_it_took_while_work_goes_on) {
  const auto offload = make_host_offload(kGpu, 64 * kMiB);
  EXPECT_EQ(offload->name(), "offload");
  for (int round = 0; round < 3; ++round) {
    std::vector<at::Tensor> expected;
    std::deque<Encoded> held;
    at::Tensor x = test::normals({256, 1024}).to(kGpu);
    for (int i = 0; i < 20; ++i) {
      x = x.mul(1.01);  // 1 MiB each; freed as soon as the copy allows
      expected.push_back(x.cpu());
      held.push_back(offload->encode(x, kKey).value());
      EXPECT_TRUE(held.back().parts[0].is_cpu());
    }
    offload->finish_encoding();
    EXPECT_EQ(offload->usage().held_bytes, 20 * kMiB);
    for (int i = 19; i >= 0; --i) {
      if (i > 0) offload->prefetch(held[static_cast<size_t>(i) - 1]);
      const at::Tensor y = offload->decode(held.back());
      EXPECT_TRUE(same_bits(y.cpu(), expected[static_cast<size_t>(i)])) << i;
      EXPECT_TRUE(same_bits(offload->decode(held.back()).cpu(), y.cpu())) << "a second time";
      held.pop_back();
    }
    EXPECT_EQ(offload->usage().held_bytes, 0);
  }
  EXPECT_EQ(offload->usage().fallbacks, 0);
}

TEST(GpuOffload, falls_back_and_counts_when_its_pool_is_full) {
  const auto offload = make_host_offload(kGpu, 2 * kMiB);
  const at::Tensor x = test::normals({256, 1024}).to(kGpu);
  const auto first = offload->encode(x, kKey);
  const auto second = offload->encode(x, kKey);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(offload->encode(x, kKey));
  EXPECT_EQ(offload->usage().fallbacks, 1);
  EXPECT_EQ(offload->take_refused(), std::set<int64_t>{kKey.storage});
}

TEST(GpuOffload, bears_what_was_prefetched_and_never_asked_for) {
  const auto offload = make_host_offload(kGpu, 4 * kMiB);
  const at::Tensor x = test::normals({256, 1024}).to(kGpu);
  {
    const Encoded encoded = offload->encode(x, kKey).value();
    offload->prefetch(encoded);
  }
  const at::Tensor y = at::ones({256, 1024}, at::TensorOptions().device(kGpu));
  EXPECT_TRUE(same_bits(y.cpu(), at::ones({256, 1024}))) << "the copy is not into memory in use";
  EXPECT_EQ(offload->usage().held_bytes, 0);
}

}  // namespace
}  // namespace noisemark::memopt
