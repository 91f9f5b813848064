#include "reports/compare/equivalence.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

void check(double margin, double alpha) {
  if (!(margin > 0)) throw std::logic_error("equivalence: the margin is not positive");
  if (!(alpha > 0 && alpha < 0.5)) throw std::logic_error("equivalence: alpha outside (0, 0.5)");
}

Equivalence without_spread(Equivalence e, double margin) {
  e.p_lower = e.difference > -margin ? 0 : 1;
  e.p_upper = e.difference < margin ? 0 : 1;
  e.interval = {e.difference, e.difference};
  return e;
}

Equivalence tested(Equivalence e, double margin, double alpha) {
  if (e.standard_error == 0) return without_spread(e, margin);
  const boost::math::students_t t(e.degrees);
  const double above = (e.difference + margin) / e.standard_error;
  const double below = (e.difference - margin) / e.standard_error;
  e.p_lower = boost::math::cdf(boost::math::complement(t, above));
  e.p_upper = boost::math::cdf(t, below);
  const double half = boost::math::quantile(boost::math::complement(t, alpha)) * e.standard_error;
  e.interval = {e.difference - half, e.difference + half};
  return e;
}

/// Squared standard error of a sample's mean.
double error_squared(std::span<const double> samples) {
  const double deviation = standard_deviation(samples);
  return deviation * deviation / static_cast<double>(samples.size());
}

}  // namespace

Equivalence paired_equivalence(std::span<const double> differences, double margin, double alpha) {
  check(margin, alpha);
  Equivalence e;
  e.standard_error = std::sqrt(error_squared(differences));
  e.difference = mean(differences);
  e.degrees = static_cast<double>(differences.size() - 1);
  return tested(e, margin, alpha);
}

Equivalence welch_equivalence(std::span<const double> base, std::span<const double> candidate,
                              double margin, double alpha, double known_variance) {
  check(margin, alpha);
  const double a = error_squared(base);
  const double b = error_squared(candidate);
  Equivalence e;
  e.difference = mean(candidate) - mean(base);
  const double variance = a + b + known_variance;
  e.standard_error = std::sqrt(variance);
  const double weights = a * a / static_cast<double>(base.size() - 1) +
                         b * b / static_cast<double>(candidate.size() - 1);
  e.degrees = weights > 0 ? variance * variance / weights : 1;
  if (weights == 0 && known_variance > 0) e.degrees = std::numeric_limits<double>::infinity();
  return tested(e, margin, alpha);
}

}  // namespace noisemark::reports
