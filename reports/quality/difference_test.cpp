#include "reports/quality/difference_test.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

constexpr size_t kFewestToCorrelate = 3;

double squared(double value) {
  return value * value;
}

std::vector<double> differences_of(const SeedValues& values) {
  std::vector<double> differences;
  for (size_t i = 0; i < values.reference.size(); ++i) {
    differences.push_back(values.candidate[i] - values.reference[i]);
  }
  return differences;
}

void check_lengths(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw std::logic_error("difference test: unequal lengths");
}

}  // namespace

std::optional<double> correlation(std::span<const double> a, std::span<const double> b) {
  check_lengths(a, b);
  if (a.size() < kFewestToCorrelate) return std::nullopt;
  const double mean_a = mean(a);
  const double mean_b = mean(b);
  double together = 0;
  double alone_a = 0;
  double alone_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    together += (a[i] - mean_a) * (b[i] - mean_b);
    alone_a += squared(a[i] - mean_a);
    alone_b += squared(b[i] - mean_b);
  }
  if (!(alone_a > 0) || !(alone_b > 0)) return std::nullopt;
  return std::clamp(together / (std::sqrt(alone_a) * std::sqrt(alone_b)), -1.0, 1.0);
}

TestDesign choose_design(std::optional<double> correlation) {
  const bool welch = correlation && *correlation >= 0 && *correlation <= kWorthPairing;
  return welch ? TestDesign::kWelch : TestDesign::kPaired;
}

DifferenceTest test_difference(const SeedValues& values, double margin, double alpha) {
  check_lengths(values.reference, values.candidate);
  DifferenceTest test;
  test.correlation = correlation(values.reference, values.candidate);
  test.design = choose_design(test.correlation);
  if (test.design == TestDesign::kPaired) {
    const std::vector<double> differences = differences_of(values);
    test.equivalence = paired_equivalence(differences, margin, alpha);
    test.variance = squared(standard_deviation(differences));
  } else {
    test.equivalence = welch_equivalence(values.reference, values.candidate, margin, alpha);
    test.variance = squared(standard_deviation(values.reference)) +
                    squared(standard_deviation(values.candidate));
  }
  // The distribution is continuous, so each is what its opposite leaves.
  test.p_worse = 1 - test.equivalence.p_upper;
  test.p_better = 1 - test.equivalence.p_lower;
  return test;
}

}  // namespace noisemark::reports
