// These tests count how often a verdict is wrong where seeds are not what the judgement assumes,
// and how often a range is: by simulation, seeded, so the same every time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "reports/compare/inference.h"
#include "reports/seeds/difference_test.h"
#include "reports/seeds/gates.h"
#include "tests/reports/seeds/normals.h"

namespace noisemark::reports {
namespace {

using test::kAlpha;
using test::kMargin;
using test::Normals;
using test::Rates;

/// Four standard errors of a rate of 5 % in so many studies.
double tolerance(int studies) {
  return 4 * std::sqrt(kAlpha * (1 - kAlpha) / studies);
}

/// The deviation of a seed's loss, in units of its spread: mean 0, variance 1.
using Shape = std::function<double(Normals&)>;

/// Student's t with 5 degrees of freedom, over the root of its variance, 5 / 3.
double heavy_tailed(Normals& normals) {
  double squares = 0;
  for (int i = 0; i < 5; ++i) squares += std::pow(normals.draw(), 2);
  return normals.draw() / std::sqrt(squares / 5) / std::sqrt(5.0 / 3.0);
}

double even(Normals& normals) {
  return (2 * normals.uniform() - 1) * std::sqrt(3.0);
}

/// Seeds whose two sides share `common` of their variance and spread by 0.2 % and by `ratio` times
/// that; the candidate is off by the margin.
Rates rates_of_shape(size_t seeds, double common, double ratio, const Shape& shape) {
  constexpr int kStudies = 4000;
  constexpr double kSpread = 0.002;
  Normals normals(31 * seeds + static_cast<uint64_t>(100 * common + 10 * ratio));
  Rates rates;
  for (int i = 0; i < kStudies; ++i) {
    SeedValues values;
    for (size_t seed = 0; seed < seeds; ++seed) {
      const double shared = std::sqrt(common) * shape(normals);
      const auto one = [&] { return shared + std::sqrt(1 - common) * shape(normals); };
      values.reference.push_back(kSpread * one());
      values.candidate.push_back(kMargin + ratio * kSpread * one());
    }
    rates.count(test_difference(values, kMargin, kAlpha), kAlpha, kStudies);
  }
  return rates;
}

TEST(LevelOfShapes, holds_where_a_mode_spreads_its_seeds_thrice_as_far) {
  for (const size_t seeds : {2U, 3U, 5U}) {
    for (const double common : {0.0, 0.3, 0.9}) {
      const Rates rates = rates_of_shape(seeds, common, 3, [](Normals& n) { return n.draw(); });
      EXPECT_LE(rates.pass, kAlpha + tolerance(4000)) << seeds << " seeds, " << common;
      EXPECT_LE(rates.fail, kAlpha + tolerance(4000)) << seeds << " seeds, " << common;
    }
  }
}

TEST(LevelOfShapes, holds_for_heavy_tails_and_for_none) {
  for (const Shape& shape : {Shape(heavy_tailed), Shape(even)}) {
    for (const double common : {0.0, 0.9}) {
      const Rates rates = rates_of_shape(5, common, 1, shape);
      EXPECT_LE(rates.pass, kAlpha + tolerance(4000)) << common;
      EXPECT_LE(rates.fail, kAlpha + tolerance(4000)) << common;
    }
  }
}

/// The other side of what level_test.cpp asks: four modes that are worse by the margin exactly, any
/// of which may be called worse by more.
TEST(LevelOfShapes, of_any_wrong_fail_among_four_modes_holds_by_holm) {
  constexpr int kStudies = 4000;
  Normals normals(4);
  double wrong = 0;
  double wrong_alone = 0;
  for (int i = 0; i < kStudies; ++i) {
    std::vector<double> p;
    for (int mode = 0; mode < 4; ++mode) {
      SeedValues values;
      for (int seed = 0; seed < 4; ++seed) {
        const double shared = 0.9 * normals.draw();
        values.reference.push_back(0.002 * (shared + 0.44 * normals.draw()));
        values.candidate.push_back(kMargin + 0.002 * (shared + 0.44 * normals.draw()));
      }
      p.push_back(test_difference(values, kMargin, kAlpha).p_worse);
    }
    const auto proven = [](double value) { return value <= kAlpha; };
    const std::vector<double> adjusted = holm(p);
    wrong += std::any_of(adjusted.begin(), adjusted.end(), proven) ? 1.0 / kStudies : 0;
    wrong_alone += std::any_of(p.begin(), p.end(), proven) ? 1.0 / kStudies : 0;
  }
  EXPECT_LE(wrong, kAlpha + tolerance(kStudies));
  EXPECT_GT(wrong_alone, 2 * kAlpha) << "1 - 0.95^4 is 18.5 %";
}

/// The rates for ranges whose one end is the true mean, so that either verdict is wrong.
Rates rates_of_a_range(size_t seeds, const std::function<double(Normals&)>& distance) {
  constexpr int kStudies = 2000;
  Normals normals(seeds);
  Rates rates;
  for (int i = 0; i < kStudies; ++i) {
    std::vector<double> values;
    for (size_t seed = 0; seed < seeds; ++seed) values.push_back(distance(normals));
    const Interval interval =
        seed_interval(values, {200, static_cast<uint64_t>(i), 1 - 2 * kAlpha});
    const QualityVerdict verdict = judge_range(interval, 0.5, 1).verdict;
    rates.count(verdict == QualityVerdict::kPass, verdict == QualityVerdict::kFail, kStudies);
  }
  return rates;
}

/// FID's logarithm spreads by some per cent over seeds; of a mean of 1.
double around_one(Normals& normals, double spread) {
  return std::exp(spread * normals.draw() - spread * spread / 2);
}

TEST(LevelOfRanges, of_a_pass_and_of_a_fail_holds_at_the_end_of_the_range) {
  for (const size_t seeds : {5U, 8U}) {
    for (const double spread : {0.01, 0.05}) {
      const Rates rates =
          rates_of_a_range(seeds, [&](Normals& n) { return around_one(n, spread); });
      EXPECT_LE(rates.pass, kAlpha + tolerance(2000)) << seeds << " seeds, " << spread;
      EXPECT_LE(rates.fail, kAlpha + tolerance(2000)) << seeds << " seeds, " << spread;
    }
  }
}

TEST(LevelOfRanges, is_not_bought_by_never_deciding) {
  const auto shifted = [](double by) {
    return [=](Normals& n) { return by * around_one(n, 0.02); };
  };
  EXPECT_GT(rates_of_a_range(5, shifted(0.9)).pass, 0.99);
  EXPECT_GT(rates_of_a_range(5, shifted(1.1)).fail, 0.99);
  EXPECT_GT(rates_of_a_range(5, shifted(0.45)).fail, 0.99) << "too near is as wrong";
}

}  // namespace
}  // namespace noisemark::reports
