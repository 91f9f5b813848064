#include "reports/seeds/difference_test.h"

#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/quadrature/gauss_kronrod.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "reports/base/statistics.h"

namespace noisemark::reports {
namespace {

constexpr int64_t kMostSeeds = 10'000;
constexpr double kNegligible = 1e-17;  // probability outside of what is integrated, on either side
constexpr double kTolerance = 1e-12;
constexpr unsigned kDeepest = 15;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

void check(const EstimatedDifference& of) {
  require(std::isfinite(of.standard_error) && of.standard_error >= 0,
          "power: the standard error is negative or not finite");
  require(std::isfinite(of.degrees) && of.degrees > 0, "power: no degrees of freedom");
}

void check(const Sensitivity& s) {
  require(s.alpha > 0 && s.alpha < s.power && s.power < 1,
          "power: alpha < power do not lie in (0, 1)");
}

double critical_t(double degrees, double alpha) {
  return boost::math::quantile(boost::math::complement(boost::math::students_t(degrees), alpha));
}

/// The power of a one-sided t test against a true mean of `effect` standard errors.
double one_sided_power(double effect, double degrees, double alpha) {
  const boost::math::non_central_t t(degrees, effect);
  return boost::math::cdf(boost::math::complement(t, critical_t(degrees, alpha)));
}

/// The estimated over the true standard error: the root of chi-squared over its degrees.
class ErrorRatio {
 public:
  explicit ErrorRatio(double degrees) : degrees_(degrees), squared_(degrees) {}

  [[nodiscard]] double density(double u) const {
    return 2 * degrees_ * u * boost::math::pdf(squared_, degrees_ * u * u);
  }
  [[nodiscard]] double least() const {
    return std::sqrt(boost::math::quantile(squared_, kNegligible) / degrees_);
  }
  [[nodiscard]] double most() const {
    return std::sqrt(boost::math::quantile(boost::math::complement(squared_, kNegligible)) /
                     degrees_);
  }

 private:
  double degrees_;
  boost::math::chi_squared squared_;
};

/// One of `seeds` a side. Welch's degrees are those of sides that spread alike, the most that there
/// can be: where one side spreads by more, somewhat more seeds are needed than this says.
EstimatedDifference with_seeds(const SeedOutlook& outlook, int64_t seeds) {
  const auto count = static_cast<double>(seeds);
  const double sides = outlook.design == TestDesign::kPaired ? 1 : 2;
  return {std::sqrt(outlook.variance / count), sides * (count - 1)};
}

bool decides(const SeedOutlook& outlook, int64_t seeds, const Sensitivity& s) {
  const EstimatedDifference of = with_seeds(outlook, seeds);
  const double distance = std::abs(outlook.difference) - outlook.margin;
  if (distance < 0) {
    return equivalence_power(of, outlook.difference, outlook.margin, s.alpha) >= s.power;
  }
  if (of.standard_error == 0) return distance > 0;
  return one_sided_power(distance / of.standard_error, of.degrees, s.alpha) >= s.power;
}

}  // namespace

double equivalence_power(const EstimatedDifference& of, double difference, double margin,
                         double alpha) {
  check(of);
  require(std::isfinite(difference), "power: the difference is not finite");
  require(std::isfinite(margin) && margin > 0, "power: the margin is not positive");
  require(alpha > 0 && alpha < 0.5, "power: alpha outside (0, 0.5)");
  if (of.standard_error == 0) return std::abs(difference) < margin ? 1 : 0;
  const double t = critical_t(of.degrees, alpha);
  const double above = (margin - difference) / of.standard_error;
  const double below = (margin + difference) / of.standard_error;
  const ErrorRatio ratio(of.degrees);
  // Beyond it the interval is wider than the margin, wherever it lies.
  const double widest = margin / (of.standard_error * t);
  const double least = ratio.least();
  const double most = std::min(widest, ratio.most());
  if (most <= least) return 0;
  const boost::math::normal normal;
  const auto proven = [&](double u) {
    const double within =
        boost::math::cdf(normal, above - t * u) - boost::math::cdf(normal, t * u - below);
    return within * ratio.density(u);
  };
  const double power = boost::math::quadrature::gauss_kronrod<double, 61>::integrate(
      proven, least, most, kDeepest, kTolerance);
  return std::clamp(power, 0.0, 1.0);
}

double detectable_difference(const EstimatedDifference& of, const Sensitivity& sensitivity) {
  check(of);
  check(sensitivity);
  return of.standard_error * detectable_effect(of.degrees, sensitivity);
}

std::optional<int64_t> seeds_to_decide(const SeedOutlook& outlook, const Sensitivity& sensitivity) {
  check(sensitivity);
  require(std::isfinite(outlook.variance) && outlook.variance >= 0,
          "power: the variance is negative or not finite");
  require(std::isfinite(outlook.difference), "power: the difference is not finite");
  require(std::isfinite(outlook.margin) && outlook.margin > 0, "power: the margin is not positive");
  int64_t high = 2;
  while (!decides(outlook, high, sensitivity)) {
    if (high >= kMostSeeds) return std::nullopt;
    high = std::min(2 * high, kMostSeeds);
  }
  int64_t low = high == 2 ? 1 : high / 2;  // too few
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (decides(outlook, middle, sensitivity) ? high : low) = middle;
  }
  return high;
}

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
