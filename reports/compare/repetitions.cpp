#include "reports/compare/repetitions.h"

#include <algorithm>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace noisemark::reports {
namespace {

constexpr int64_t kMostPairs = 1'000'000;

void check(double deviation, const Sensitivity& s) {
  if (!(deviation >= 0) || !std::isfinite(deviation)) {
    throw std::logic_error("repetitions: the deviation is negative or not finite");
  }
  if (!(s.alpha > 0 && s.alpha < s.power && s.power < 1)) {
    throw std::logic_error("repetitions: alpha < power do not lie in (0, 1)");
  }
}

/// Of a one-sided t test against a true mean of `effect` standard errors.
double power_at(double effect, double degrees, double alpha) {
  const double critical =
      boost::math::quantile(boost::math::complement(boost::math::students_t(degrees), alpha));
  const boost::math::non_central_t t(degrees, effect);
  return boost::math::cdf(boost::math::complement(t, critical));
}

}  // namespace

double smallest_p(int64_t pairs) {
  if (pairs < 0) throw std::logic_error("repetitions: a negative number of pairs");
  return std::exp2(-static_cast<double>(pairs));
}

int64_t fewest_pairs(double alpha, int64_t tests) {
  if (!(alpha > 0 && alpha < 1)) throw std::logic_error("repetitions: alpha outside (0, 1)");
  if (tests < 1) throw std::logic_error("repetitions: no tests");
  int64_t pairs = 1;
  while (smallest_p(pairs) * static_cast<double>(tests) > alpha) ++pairs;
  return pairs;
}

// Bracketed by doubling, then to the last bits (Alefeld, Potra and Shi 1995).
double detectable_effect(double degrees, const Sensitivity& s) {
  check(0, s);
  if (!(degrees > 0)) throw std::logic_error("repetitions: no degrees of freedom");
  const auto lack = [&](double effect) { return power_at(effect, degrees, s.alpha) - s.power; };
  double low = 0;
  double high = 1;
  while (lack(high) < 0) low = std::exchange(high, 2 * high);
  std::uintmax_t iterations = 100;
  const boost::math::tools::eps_tolerance<double> tolerance;
  return boost::math::tools::toms748_solve(lack, low, high, tolerance, iterations).second;
}

double smallest_detectable(double deviation, int64_t pairs, const Sensitivity& sensitivity) {
  check(deviation, sensitivity);
  if (pairs < 2) throw std::logic_error("repetitions: fewer than two pairs");
  const auto count = static_cast<double>(pairs);
  return deviation / std::sqrt(count) * detectable_effect(count - 1, sensitivity);
}

int64_t pairs_to_detect(double deviation, double difference, const Sensitivity& sensitivity) {
  check(deviation, sensitivity);
  if (!(difference > 0)) throw std::logic_error("repetitions: the difference is not positive");
  if (deviation == 0) return 2;
  const auto enough = [&](int64_t pairs) {
    const auto count = static_cast<double>(pairs);
    const double effect = difference / deviation * std::sqrt(count);
    return power_at(effect, count - 1, sensitivity.alpha) >= sensitivity.power;
  };
  int64_t high = 2;
  while (!enough(high)) {
    if (high >= kMostPairs) throw std::logic_error("repetitions: needs more than a million pairs");
    high *= 2;
  }
  int64_t low = high / 2;  // too few, or below two
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

int64_t pairs_to_prove_equal(double deviation, double margin, const Sensitivity& sensitivity) {
  Sensitivity each = sensitivity;
  each.power = 1 - (1 - sensitivity.power) / 2;
  return pairs_to_detect(deviation, margin, each);
}

}  // namespace noisemark::reports
