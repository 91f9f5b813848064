#pragma once

#include <optional>
#include <span>
#include <vector>

#include "reports/compare/equivalence.h"
#include "reports/quality/quality.h"

namespace noisemark::reports {

/// Figures of the same seeds on both sides, so that a larger one is worse and differences add up:
/// logarithms where ratios are judged.
struct SeedValues {
  std::vector<double> reference;
  std::vector<double> candidate;
};

/// Pearson's, of two samples of one length. Empty for fewer than three pairs, of which it is always
/// ±1, and where one side has no spread. Throws std::logic_error for unequal lengths and values
/// that are not finite.
[[nodiscard]] std::optional<double> correlation(std::span<const double> a,
                                                std::span<const double> b);

/// Below it seeds share too little to pay for the degrees of freedom that pairing costs.
inline constexpr double kWorthPairing = 0.5;

/// Declared before any figure is seen. Welch's test where the correlation lies in [0, 0.5]; else
/// the paired one, which is right whatever the correlation is, also where there is none to measure.
/// A negative correlation is paired because Welch's interval would be too short. The choice by the
/// data at hand keeps the level of the test: of 5 % it makes 4.4 to 5.3, of 2.5 % at most 2.9
/// (simulated; level_test.cpp). The plain choice of the shorter interval would not: of 5 % it makes
/// up to 9.
[[nodiscard]] TestDesign choose_design(std::optional<double> correlation);

/// Is the difference of the means, candidate - reference, within ±margin, or beyond it?
struct DifferenceTest {
  TestDesign design = TestDesign::kPaired;
  std::optional<double> correlation;
  Equivalence equivalence;  ///< two one-sided t tests; interval of confidence 1 - 2 alpha
  double p_worse = 1;       ///< of "worse by at most the margin"
  double p_better = 1;      ///< of "better by at most the margin"
  double variance = 0;      ///< of one more seed: of a difference, or of both sides added (Welch)
};

/// Throws std::logic_error as paired_equivalence() does, and for sides of unequal length.
[[nodiscard]] DifferenceTest test_difference(const SeedValues& values, double margin, double alpha);

}  // namespace noisemark::reports
