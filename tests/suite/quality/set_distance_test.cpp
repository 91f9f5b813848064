#include "suite/quality/set_distance.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "tests/suite/quality/distance/gaussians.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::test {
namespace {

FeatureSet set_of(const std::string& name, const at::Tensor& features) {
  FeatureSet set;
  set.name = name;
  set.features = features;
  set.samples = features.size(0);
  set.dimension = features.size(1);
  return set;
}

FeatureSet moments_only(FeatureSet set) {
  set.gaussian = gaussian_of(set);
  set.features = at::Tensor();
  return set;
}

const ExtractorInfo kNet{"net", "FID", "0123", "tf1-bilinear", "a file"};

/// The two differ by what roots of eigenvalues may lose before they are left for singular values
/// (frechet.h).
TEST(SetDistance, is_the_same_from_features_and_from_moments) {
  const FeatureSet few = set_of("few", normals(1, 6, 10));
  const FeatureSet many = set_of("many", normals(2, 60, 10) * 1.3);
  const FrechetDistance found = frechet_distance(few.features, many.features);
  const double expected = found.value;
  const double bound = 1e-7 * found.trace_term;
  for (const FeatureSet& a : {few, moments_only(few)}) {
    for (const FeatureSet& b : {many, moments_only(many)}) {
      EXPECT_NEAR(measure_distance(a, b).frechet.value, expected, bound);
      EXPECT_NEAR(measure_distance(b, a).frechet.value, expected, bound);
    }
  }
}

TEST(SetDistance, is_called_what_its_extractor_says) {
  FeatureSet a = set_of("a", normals(1, 30, 4));
  FeatureSet b = set_of("b", normals(2, 30, 4));
  EXPECT_EQ(measure_distance(a, b).name, "Fréchet distance");
  b.extractor = kNet;
  EXPECT_EQ(measure_distance(a, b).name, "Fréchet distance") << "nobody says what made a";
  a.extractor = kNet;
  EXPECT_EQ(measure_distance(a, b).name, "FID");
  a.extractor = make_pixels({})->info();
  b.extractor = a.extractor;
  EXPECT_EQ(measure_distance(a, b).name, "pixel Fréchet distance");
}

TEST(SetDistance, of_features_of_different_extractors_is_not_comparable) {
  FeatureSet a = set_of("a", normals(1, 30, 4));
  FeatureSet b = set_of("b", normals(2, 30, 4));
  a.extractor = kNet;
  b.extractor = kNet;
  b.extractor->resize = "align_corners=False";
  const auto [code, message] = outcome([&] { (void)measure_distance(a, b); });
  EXPECT_EQ(code, ExitCode::kNotComparable);
  EXPECT_NE(message.find("align_corners=False"), std::string::npos) << message;
}

TEST(SetDistance, of_one_set_of_unknown_make_decides_nothing_until_the_user_says_so) {
  FeatureSet a = set_of("a", normals(1, 30, 4));
  FeatureSet b = moments_only(set_of("b.npz", normals(2, 30, 4)));
  EXPECT_EQ(why_not_alike(a, b), "") << "neither claims to be of any extractor";
  a.extractor = kNet;
  const std::string why =
      "b.npz: nobody says which extractor and resize made it; --resize NAME says so (of a it is "
      "tf1-bilinear)";
  EXPECT_EQ(why_not_alike(a, b), why);
  EXPECT_EQ(why_not_alike(b, a), why);
  assert_extractor(b, a, "tf1-bilinear");
  EXPECT_EQ(why_not_alike(a, b), "");
  EXPECT_TRUE(b.extractor_asserted);
  EXPECT_EQ(measure_distance(a, b).name, "FID");
  EXPECT_EQ(outcome([&] { assert_extractor(b, a, "tf1-bilinear"); }).first, ExitCode::kBadInput)
      << "it is known now";
}

TEST(SetDistance, of_a_set_that_the_user_says_was_resized_otherwise_is_not_comparable) {
  FeatureSet a = set_of("a", normals(1, 30, 4));
  FeatureSet b = moments_only(set_of("b.npz", normals(2, 30, 4)));
  a.extractor = kNet;
  assert_extractor(b, a, "bilinear");
  EXPECT_EQ(outcome([&] { (void)measure_distance(a, b); }).first, ExitCode::kNotComparable);
}

TEST(SetDistance, of_features_drawn_again_takes_the_reference_as_it_is) {
  const FeatureSet a = set_of("a", normals(1, 60, 4));
  const FeatureSet b = set_of("b", normals(2, 60, 4));
  SetDistanceOptions options;
  options.resampling.replicates = 5;
  int64_t seen = 0;
  options.resampling.progress = [&](int64_t done) { EXPECT_EQ(done, seen++); };
  const auto replicates = measure_distance(a, b, options).replicates;
  EXPECT_EQ(seen, 5);
  ASSERT_EQ(replicates.size(), 5U);
  options.resampling.progress = {};
  const auto by_moments = measure_distance(a, moments_only(b), options).replicates;
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(replicates[i], by_moments[i], 1e-9);
  EXPECT_EQ(outcome([&] { (void)measure_distance(moments_only(a), b, options); }).first,
            ExitCode::kBadInput);
}

TEST(SetDistance, refuses_sets_of_other_features_and_single_samples) {
  const FeatureSet a = set_of("a.npy", normals(1, 30, 4));
  const auto [code, message] =
      outcome([&] { (void)measure_distance(a, set_of("b.npy", normals(1, 30, 5))); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_EQ(message,
            "a.npy and b.npy: features: 4 and 5 per sample (the same number in both sets)");
  EXPECT_EQ(outcome([&] { (void)measure_distance(a, set_of("b", normals(1, 1, 4))); }).first,
            ExitCode::kBadInput);
}

TEST(SetDistance, refuses_gray_pictures_beside_coloured_ones) {
  FeatureSet gray = set_of("gray", normals(1, 30, 4));
  FeatureSet coloured = set_of("coloured", normals(2, 30, 4));
  EXPECT_EQ(outcome([&] { (void)measure_distance(gray, coloured); }).first, ExitCode::kPass);
  gray.channels = 1;
  coloured.channels = 3;
  const auto [code, message] = outcome([&] { (void)measure_distance(gray, coloured); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_EQ(message,
            "gray and coloured: channels: 1 and 3 per image (the same number in both sets)");
}

TEST(SetDistance, needs_features_for_all_but_frechet) {
  const FeatureSet a = set_of("a", normals(1, 60, 4));
  const FeatureSet b = moments_only(set_of("b.npz", normals(2, 60, 4)));
  SetDistanceOptions options;
  options.kernel = true;
  options.kernel_options.subset_size = 20;
  const auto [code, message] = outcome([&] { (void)measure_distance(a, b, options); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("b.npz: only mean and covariance are known"), std::string::npos);
  options.precision_recall = true;
  const SetDistance found = measure_distance(a, set_of("c", normals(2, 60, 4)), options);
  EXPECT_TRUE(found.kernel && found.precision_recall);
}

TEST(SetDistance, is_gated_with_2_d_samples_and_not_with_one_fewer) {
  EXPECT_EQ(why_no_gate(set_of("a", normals(1, 8, 4))), "");
  EXPECT_EQ(why_no_gate(set_of("a.npy", normals(1, 7, 4))),
            "a.npy: N = 7, and with fewer than 2 d = 8 samples the distance is mostly the error of "
            "the covariances");
  FeatureSet unknown = moments_only(set_of("a.npz", normals(1, 20, 4)));
  unknown.samples = 0;
  EXPECT_NE(why_no_gate(unknown).find("N is not known"), std::string::npos);
  unknown.exact = true;
  EXPECT_EQ(why_no_gate(unknown), "");
}

}  // namespace
}  // namespace noisemark::suite::test
