#include "suite/quality/distance/draws.h"

#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/base/statistics.h"
#include "reports/seeds/gates.h"
#include "suite/quality/distance/frechet.h"
#include "tests/suite/quality/distance/gaussians.h"

namespace noisemark::suite::test {
namespace {

using Numbers = std::vector<int64_t>;

/// numpy.random.RandomState(2020) of numpy 2.4: permutation(10); choice(300, 8, replace=False),
/// then choice(70000, 4, replace=False) of the same state.
TEST(SubsetDraws, of_numpy_are_numpys) {
  EXPECT_EQ(numpy_permutation(2020, 10), (Numbers{2, 4, 9, 1, 5, 7, 6, 3, 8, 0}));
  const DrawSubset draw = numpy_draws(2020);
  EXPECT_EQ(draw(0, 0, 300, 8), (Numbers{248, 192, 185, 204, 75, 283, 110, 294}));
  EXPECT_EQ(draw(0, 1, 70'000, 4), (Numbers{48846, 65115, 55378, 50715}));
}

TEST(SubsetDraws, hold_different_numbers_below_the_total) {
  for (const DrawSubset& draw : {counter_draws(1), numpy_draws(1)}) {
    for (const int64_t count : {0, 1, 50, 100}) {
      const Numbers numbers = draw(3, 1, 100, count);
      EXPECT_EQ(std::set<int64_t>(numbers.begin(), numbers.end()).size(),
                static_cast<size_t>(count));
      for (const int64_t number : numbers) EXPECT_TRUE(number >= 0 && number < 100);
    }
    EXPECT_THROW((void)draw(0, 0, 5, 6), c10::Error);
  }
}

TEST(SubsetDraws, by_counter_depend_on_nothing_drawn_before) {
  const DrawSubset draw = counter_draws(7);
  const Numbers first = draw(0, 0, 1000, 20);
  EXPECT_NE(draw(1, 0, 1000, 20), first);
  EXPECT_NE(draw(0, 1, 1000, 20), first);
  EXPECT_NE(counter_draws(8)(0, 0, 1000, 20), first);
  EXPECT_EQ(draw(0, 0, 1000, 20), first);
}

/// 2000 draws of 3 of 10: each number is expected 600 times, with a deviation of 20.5.
TEST(SubsetDraws, take_every_number_equally_often) {
  for (const DrawSubset& draw : {counter_draws(2), numpy_draws(2)}) {
    Numbers counts(10, 0);
    for (int64_t subset = 0; subset < 2000; ++subset) {
      for (const int64_t number : draw(subset, 0, 10, 3)) ++counts[static_cast<size_t>(number)];
    }
    for (const int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 600, 5 * 20.5);
  }
}

double mean_of(const at::Tensor& x) {
  return number(x.mean());
}

ResamplingOptions options(int64_t replicates, uint64_t seed) {
  ResamplingOptions chosen;
  chosen.replicates = replicates;
  chosen.seed = seed;
  return chosen;
}

TEST(Resampling, draws_whole_rows_with_replacement) {
  const at::Tensor features = normals(1, 50, 3);
  int64_t repeated = 0;
  const auto look = [&](const at::Tensor& drawn) {
    EXPECT_EQ(drawn.sizes(), features.sizes());
    // [50, 50]: which row of the features each drawn one is.
    const at::Tensor same = (drawn.unsqueeze(1) == features.unsqueeze(0)).all(2);
    EXPECT_TRUE(same.any(1).all().item<bool>()) << "a row that is none of them";
    repeated += same.sum(0).max().item<int64_t>() > 1 ? 1 : 0;
    return 0.0;
  };
  EXPECT_EQ(resampled_distances(features, look, options(10, 1)).size(), 10U);
  // 50 draws of 50 without a repetition: once in 10^21.
  EXPECT_EQ(repeated, 10);
}

TEST(Resampling, depends_on_the_seed_and_on_nothing_that_was_drawn_before) {
  const at::Tensor features = normals(1, 50, 3);
  const auto ten = resampled_distances(features, mean_of, options(10, 1));
  const auto five = resampled_distances(features, mean_of, options(5, 1));
  EXPECT_TRUE(std::equal(five.begin(), five.end(), ten.begin()));
  EXPECT_NE(resampled_distances(features, mean_of, options(5, 2)), five);
  EXPECT_NE(ten[0], ten[1]);
  EXPECT_TRUE(resampled_distances(features, mean_of, options(0, 1)).empty());
}

/// The standard error of a mean is known: the deviation over the root of N. A deviation over 400
/// replicates is itself uncertain by 3.5 %, so four of those.
TEST(Resampling, spreads_as_much_as_other_samples_would) {
  const at::Tensor features = normals(1, 400, 1);
  const auto means = resampled_distances(features, mean_of, options(400, 3));
  const double expected = number(features.std()) / 20;
  EXPECT_NEAR(reports::standard_deviation(means), expected, 4 * 0.035 * expected);
}

/// Counts how often the interval of one set holds what sets of that N have on the average, against
/// an exact reference. 200 sets: a rate of 90 % is uncertain by 2.1 %; four of those, and 3 % for
/// what the bootstrap of a few samples lacks. One that keeps the bias of the replicates holds it
/// less often.
TEST(Resampling, interval_holds_the_distance_of_so_many_samples) {
  constexpr int kSets = 200;
  constexpr int64_t kSamples = 60;
  constexpr int64_t kDimension = 4;
  const Gaussian reference = {at::zeros({kDimension}, doubles()),
                              covariance_of(rotation(1, kDimension), spectrum(kDimension, 0)), 0};
  const auto distance = [&](const at::Tensor& x) { return frechet_distance(x, reference).value; };
  const auto set = [&](uint64_t seed) { return normals(seed, kSamples, kDimension) + 0.2; };
  double truth = 0;
  constexpr int kTruth = 2000;
  for (int i = 0; i < kTruth; ++i) truth += distance(set(1000 + static_cast<uint64_t>(i))) / kTruth;
  int held = 0;
  int held_with_bias = 0;
  for (uint64_t i = 0; i < kSets; ++i) {
    const at::Tensor x = set(i);
    const auto replicates = resampled_distances(x, distance, options(100, i));
    const auto [low, high] = reports::resampled_interval(distance(x), replicates, 0.9);
    held += low <= truth && truth <= high ? 1 : 0;
    held_with_bias +=
        reports::quantile(replicates, 0.05) <= truth && truth <= reports::quantile(replicates, 0.95)
            ? 1
            : 0;
  }
  EXPECT_NEAR(static_cast<double>(held) / kSets, 0.9, 4 * 0.021 + 0.03);
  EXPECT_LT(held_with_bias, held);
}

}  // namespace

}  // namespace noisemark::suite::test
