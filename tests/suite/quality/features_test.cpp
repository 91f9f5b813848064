#include "suite/quality/features.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <set>

#include "reports/sha256.h"
#include "suite/data/pixels.h"
#include "tests/suite/io/scratch.h"

namespace noisemark::suite::test {
namespace {

TEST(Features, of_pixels_are_the_values_that_the_model_sees) {
  const at::Tensor images =
      at::arange(256).to(at::kByte).view({1, 1, 16, 16}).expand({2, 3, -1, -1});
  const at::Tensor features = make_extractor("pixels", {})->extract(images.contiguous());
  ASSERT_EQ(features.sizes(), at::IntArrayRef({2, 768}));
  ASSERT_EQ(features.scalar_type(), at::kFloat);
  const auto* values = features.const_data_ptr<float>();
  for (int i = 0; i < 768; ++i) ASSERT_EQ(values[i], pixel_value(static_cast<uint8_t>(i % 256)));
}

TEST(Features, of_pixels_never_call_their_distance_fid) {
  const ExtractorInfo info = make_extractor("pixels", {})->info();
  EXPECT_EQ(info.distance.find("FID"), std::string::npos);
  EXPECT_TRUE(reports::is_sha256(info.checksum));
}

TEST(Features, of_pixels_have_no_use_for_weights_or_a_resize) {
  ExtractorOptions weights;
  weights.weights = "net.safetensors";
  ExtractorOptions resize;
  resize.resize = "bicubic";
  for (const ExtractorOptions& options : {weights, resize}) {
    EXPECT_EQ(outcome([&] { (void)make_extractor("pixels", options); }).first, ExitCode::kBadInput);
  }
}

TEST(Features, have_extractors_of_different_names_and_the_nearest_for_another) {
  std::set<std::string_view> names;
  for (const ExtractorEntry& entry : extractors()) EXPECT_TRUE(names.insert(entry.name).second);
  EXPECT_EQ(names, (std::set<std::string_view>{"cifarnet", "inception", "pixels"}));
  EXPECT_EQ(extractors().front().name, "pixels");
  const auto [code, message] = outcome([] { (void)make_extractor("pixel", {}); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("nearest \"pixels\""), std::string::npos) << message;
}

TEST(Features, say_in_json_where_they_are_from) {
  const ExtractorInfo info{"net", "FID", "0123", "tf1-bilinear", "a \"file\" of 2015"};
  const ExtractorInfo read = parse_extractor(extractor_json(info), "a");
  EXPECT_TRUE(same_extractor(info, read));
  EXPECT_EQ(read.provenance, info.provenance);
  for (const char* bad : {"", "[]", "{}", "{\"name\": 1}", "{\"name\": \"a\"}"}) {
    EXPECT_EQ(outcome([&] { (void)parse_extractor(bad, "a.npz"); }).first, ExitCode::kBadInput);
  }
}

TEST(Features, are_comparable_where_all_but_the_words_agree) {
  const ExtractorInfo info{"net", "FID", "0123", "tf1-bilinear", "here"};
  ExtractorInfo other = info;
  other.provenance = "there";
  EXPECT_TRUE(same_extractor(info, other));
  for (std::string ExtractorInfo::*field : {&ExtractorInfo::name, &ExtractorInfo::distance,
                                            &ExtractorInfo::checksum, &ExtractorInfo::resize}) {
    other = info;
    other.*field = "x";
    EXPECT_FALSE(same_extractor(info, other));
  }
}

}  // namespace
}  // namespace noisemark::suite::test
