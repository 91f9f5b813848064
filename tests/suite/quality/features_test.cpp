#include "suite/quality/features.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "reports/base/sha256.h"
#include "suite/config/definition.h"
#include "suite/data/image_file.h"
#include "suite/io/safetensors.h"
#include "suite/quality/cifarnet/network.h"
#include "tests/suite/quality/inception/random_weights.h"
#include "tests/suite/scratch.h"

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
  const std::set<std::string_view> names(kExtractors.begin(), kExtractors.end());
  EXPECT_EQ(names, (std::set<std::string_view>{"cifarnet", "inception", "pixels"}));
  for (const char* name : {"pixels", "cifarnet"}) {
    EXPECT_EQ(make_extractor(name, {})->info().name, name);
  }
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
  std::string twice = extractor_json(info);
  twice.insert(1, R"("name":"other",)");
  EXPECT_EQ(outcome([&] { (void)parse_extractor(twice, "a.npz"); }).first, ExitCode::kBadInput);
}

TEST(Features, are_comparable_where_all_but_the_words_agree) {
  const ExtractorInfo info{"net", "FID", "0123", "tf1-bilinear", "here"};
  ExtractorInfo other = info;
  other.provenance = "there";
  EXPECT_TRUE(same_extractor(info, other));
  for (std::string ExtractorInfo::*field : {&ExtractorInfo::name, &ExtractorInfo::distance,
                                            &ExtractorInfo::checksum, &ExtractorInfo::resize}) {
    other = info;
    other.*field += "x";
    EXPECT_FALSE(same_extractor(info, other));
  }
}

at::Tensor random_pictures(int64_t count) {
  return at::randint(256, {count, 3, 32, 32}, at::kByte);
}

/// Options with a file of random weights, as if the converter had made it of a file with the
/// SHA-256 `source`.
ExtractorOptions converted(const TemporaryFolder& folder, const std::string& source) {
  ExtractorOptions options;
  options.data = folder.path("");
  write_safetensors(folder.path(std::string(inception::kFileName)),
                    inception::test::random_tensors(),
                    {{"source_sha256", source},
                     {"tensors_sha256", inception::test::random_weights().tensors_sha256}});
  return options;
}

TEST(LearnedFeatures, call_a_distance_fid_with_the_official_weights_alone) {
  const TemporaryFolder folder;
  const std::string official(inception::kOfficialSourceSha256);
  for (const std::string& source : {official, std::string(64, 'a')}) {
    const auto extractor = make_extractor("inception", converted(folder, source));
    const ExtractorInfo& info = extractor->info();
    EXPECT_EQ(info.distance == "FID", source == official) << info.distance;
    EXPECT_NE(info.provenance.find(source), std::string::npos) << info.provenance;
    EXPECT_EQ(info.checksum, inception::test::random_weights().tensors_sha256);
    EXPECT_EQ(info.resize, "tf1-bilinear");
  }
}

TEST(LearnedFeatures, of_inception_differ_with_the_resize) {
  const TemporaryFolder folder;
  ExtractorOptions options = converted(folder, std::string(64, 'a'));
  const auto standard = make_extractor("inception", options);
  options.resize = "bilinear";
  const auto other = make_extractor("inception", options);
  EXPECT_FALSE(same_extractor(standard->info(), other->info()));
  const at::Tensor one = random_pictures(1);
  const at::Tensor features = standard->extract(one);
  EXPECT_EQ(features.sizes(), at::IntArrayRef({1, 2048}));
  EXPECT_GT((features - other->extract(one)).abs().max().item<double>(), 1e-3);
}

TEST(LearnedFeatures, of_inception_need_weights_and_a_resize_that_is_known) {
  const auto [code, message] = outcome([] { (void)make_extractor("inception", {}); });
  EXPECT_EQ(code, ExitCode::kCannotRunHere);
  EXPECT_NE(message.find("convert_inception.py"), std::string::npos) << message;
  ExtractorOptions options;
  options.resize = "bicubic";
  EXPECT_EQ(outcome([&] { (void)make_extractor("inception", options); }).first,
            ExitCode::kBadInput);
}

TEST(LearnedFeatures, of_cifarnet_are_in_the_program_and_never_fid) {
  const auto extractor = make_extractor("cifarnet", {});
  EXPECT_EQ(extractor->info().checksum, cifarnet::kSha256);
  EXPECT_EQ(extractor->info().distance.find("FID"), std::string::npos);
  EXPECT_EQ(extractor->extract(random_pictures(2)).sizes(), at::IntArrayRef({2, 144}));
}

TEST(LearnedFeatures, of_cifarnet_have_no_use_for_weights_or_a_resize) {
  ExtractorOptions weights;
  weights.weights = "net.safetensors";
  ExtractorOptions resize;
  resize.resize = "bilinear";
  for (const ExtractorOptions& options : {weights, resize}) {
    EXPECT_EQ(outcome([&] { (void)make_extractor("cifarnet", options); }).first,
              ExitCode::kBadInput);
  }
}

}  // namespace

}  // namespace noisemark::suite::test
