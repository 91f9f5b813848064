// Negative controls of the range gate: real pictures, the real distance, and references that are
// not what they should be.

#include <ATen/ops/empty.h>
#include <ATen/ops/repeat_interleave.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "reports/quality/range_gate.h"
#include "suite/config/catalogue.h"
#include "suite/data/dataset.h"
#include "suite/quality/distance/frechet.h"
#include "suite/quality/distance/moments.h"
#include "tests/reports/quality/seeds.h"

namespace noisemark::suite {
namespace {

using reports::QualityVerdict;

constexpr int64_t kPictures = 640;  // 2.5 times the 256 pixels
constexpr int64_t kSide = 16;
constexpr int64_t kSets = 5;

/// [kPictures, 1, kSide, kSide], those from `first` on.
at::Tensor pictures(int64_t first) {
  const Definition definition = load_definition("gmm16", "cpu");
  const auto dataset = open_dataset(definition, "");
  at::Tensor all = at::empty({kPictures, 1, kSide, kSide}, at::kFloat);
  for (int64_t i = 0; i < kPictures; ++i) {
    dataset->read(Split::kTrain, first + i,
                  std::span(all[i].mutable_data_ptr<float>(), kSide * kSide));
  }
  return all;
}

Gaussian moments_of(const at::Tensor& images) {
  Moments moments(kSide * kSide);
  moments.add(images.flatten(1));
  return moments.gaussian();
}

/// Half of the size and back: by the nearest pixel, where the reference was not resized at all.
at::Tensor resized_wrongly(const at::Tensor& images) {
  const at::Tensor small = images.slice(2, 0, kSide, 2).slice(3, 0, kSide, 2);
  return small.repeat_interleave(2, 2).repeat_interleave(2, 3);
}

/// Of sets of pictures, as if each were the samples of a seed.
std::vector<double> distances_to(const Gaussian& reference, bool wrong_resize = false) {
  std::vector<double> distances;
  for (int64_t set = 1; set <= kSets; ++set) {
    at::Tensor images = pictures(set * kPictures);
    if (wrong_resize) images = resized_wrongly(images);
    distances.push_back(frechet_distance(moments_of(images), reference).value);
  }
  return distances;
}

/// The verdict of a range around what sound distances are.
QualityVerdict judged(const std::vector<double>& distances, const std::vector<double>& sound) {
  const auto [least, most] = std::minmax_element(sound.begin(), sound.end());
  auto runs = reports::test::seeds_of("none", distances);
  std::vector<const reports::NamedResult*> all;
  for (const reports::NamedResult& run : runs) all.push_back(&run);
  const reports::QualityRange range = {"val_loss", 0.8 * *least, 1.2 * *most};
  return reports::judge_range_row(all, range, {2000, 1, 0.9}).verdict;
}

TEST(DistanceControls, references_that_are_right_pass_and_stale_ones_are_red) {
  const std::vector<double> sound = distances_to(moments_of(pictures(0)));
  EXPECT_EQ(judged(sound, sound), QualityVerdict::kPass);
  const std::vector<double> stale = distances_to(moments_of(pictures(0).flip(3)));
  EXPECT_EQ(judged(stale, sound), QualityVerdict::kFail)
      << "of the pictures as they were when the training still mirrored them";
}

TEST(DistanceControls, a_wrong_resize_is_red) {
  const Gaussian reference = moments_of(pictures(0));
  const std::vector<double> sound = distances_to(reference);
  EXPECT_EQ(judged(distances_to(reference, true), sound), QualityVerdict::kFail);
}

TEST(DistanceControls, samples_that_are_the_reference_itself_are_red) {
  const Gaussian reference = moments_of(pictures(0));
  const std::vector<double> sound = distances_to(reference);
  EXPECT_EQ(judged(std::vector<double>(kSets, 1e-9), sound), QualityVerdict::kFail)
      << "too small a distance is as suspicious as too large a one";
}

}  // namespace
}  // namespace noisemark::suite
