#include "reports/base/statistics.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace noisemark::reports {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
  if (samples.empty()) throw std::logic_error("statistics: no samples");
  std::vector<double> values(samples.begin(), samples.end());
  for (const double value : values) {
    if (!std::isfinite(value)) throw std::logic_error("statistics: a sample is not finite");
  }
  std::sort(values.begin(), values.end());
  return values;
}

double quantile_of_sorted(const std::vector<double>& values, double p) {
  const double position = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  if (below + 1 >= values.size()) return values.back();
  const double part = position - static_cast<double>(below);
  return values[below] + part * (values[below + 1] - values[below]);
}

double median_of_sorted(const std::vector<double>& values) {
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : std::midpoint(values[half - 1], values[half]);
}

}  // namespace

double quantile(std::span<const double> samples, double p) {
  if (!(p >= 0 && p <= 1)) throw std::logic_error("quantile: p outside [0, 1]");
  return quantile_of_sorted(sorted(samples), p);
}

double median(std::span<const double> samples) {
  return median_of_sorted(sorted(samples));
}

double median_absolute_deviation(std::span<const double> samples) {
  const double centre = median(samples);
  std::vector<double> deviations;
  deviations.reserve(samples.size());
  for (const double value : samples) deviations.push_back(std::abs(value - centre));
  return median(deviations);
}

double mean(std::span<const double> samples) {
  const std::vector<double> values = sorted(samples);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> samples) {
  if (samples.size() < 2) throw std::logic_error("standard_deviation: fewer than two samples");
  const double centre = mean(samples);
  double sum = 0;
  for (const double value : samples) sum += (value - centre) * (value - centre);
  return std::sqrt(sum / static_cast<double>(samples.size() - 1));
}

std::optional<Interval> median_interval(std::span<const double> samples, double confidence) {
  const std::vector<double> values = sorted(samples);
  const boost::math::binomial below_median(static_cast<double>(values.size()), 0.5);
  const double tail = (1 - confidence) / 2;
  // [x_(k), x_(n+1-k)], ranks from 1, misses the median with probability 2 P(Binomial <= k - 1).
  size_t k = 0;
  for (size_t low = 0, high = values.size() / 2; low < high;) {
    const size_t middle = low + (high - low) / 2;
    const bool rare = boost::math::cdf(below_median, static_cast<double>(middle)) <= tail;
    if (rare) low = k = middle + 1;
    if (!rare) high = middle;
  }
  if (k == 0) return std::nullopt;
  return Interval{values[k - 1], values[values.size() - k]};
}

}  // namespace noisemark::reports
