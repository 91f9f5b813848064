#include "suite/quality/learned_features.h"

#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "reports/sha256.h"
#include "suite/io/safetensors.h"
#include "suite/quality/cifarnet/network.h"
#include "tests/suite/io/scratch.h"
#include "tests/suite/quality/inception/random_weights.h"

namespace noisemark::suite::test {
namespace {

at::Tensor pictures(int64_t count) {
  return at::randint(256, {count, 3, 32, 32}, at::kByte);
}

/// Options with a file of random weights, as if the converter had made it of a file with the
/// SHA-256 `source`.
ExtractorOptions converted(const ScratchFolder& folder, const std::string& source) {
  ExtractorOptions options;
  options.data = folder.path("");
  write_safetensors(folder.path(std::string(inception::kFileName)),
                    inception::test::random_tensors(),
                    {{"source_sha256", source},
                     {"tensors_sha256", inception::test::random_weights().tensors_sha256}});
  return options;
}

TEST(LearnedFeatures, call_a_distance_fid_with_the_official_weights_alone) {
  const ScratchFolder folder;
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
  const ScratchFolder folder;
  ExtractorOptions options = converted(folder, std::string(64, 'a'));
  const auto standard = make_extractor("inception", options);
  options.resize = "bilinear";
  const auto other = make_extractor("inception", options);
  EXPECT_FALSE(same_extractor(standard->info(), other->info()));
  const at::Tensor one = pictures(1);
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
  EXPECT_EQ(extractor->extract(pictures(2)).sizes(), at::IntArrayRef({2, 144}));
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
