#include "reports/compare/paired_estimate.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "reports/random_index.h"

namespace noisemark::reports {
namespace {

void check(std::span<const double> differences) {
  if (differences.empty()) throw std::logic_error("paired estimate: no differences");
  for (const double value : differences) {
    if (!std::isfinite(value)) throw std::logic_error("paired estimate: a value is not finite");
  }
}

/// `averages` is room to work in.
double median_of_averages(std::span<const double> values, std::vector<double>& averages) {
  averages.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) averages.push_back((values[i] + values[j]) / 2);
  }
  const auto half = averages.begin() + static_cast<std::ptrdiff_t>(averages.size() / 2);
  std::nth_element(averages.begin(), half, averages.end());
  if (averages.size() % 2 == 1) return *half;
  return (*std::max_element(averages.begin(), half) + *half) / 2;
}

}  // namespace

std::vector<double> log_ratios(std::span<const double> base, std::span<const double> candidate) {
  if (base.size() != candidate.size()) throw std::logic_error("log ratios: unequal lengths");
  std::vector<double> ratios;
  for (size_t i = 0; i < base.size(); ++i) {
    if (!(base[i] > 0) || !(candidate[i] > 0)) {
      throw std::logic_error("log ratios: a figure is not positive");
    }
    ratios.push_back(std::log(candidate[i]) - std::log(base[i]));
  }
  check(ratios);
  return ratios;
}

double hodges_lehmann(std::span<const double> differences) {
  check(differences);
  std::vector<double> averages;
  return median_of_averages(differences, averages);
}

Interval bootstrap_hodges_lehmann(std::span<const double> differences,
                                  const BootstrapOptions& options) {
  check(differences);
  if (options.resamples < 1) throw std::logic_error("bootstrap: no resamples asked for");
  std::mt19937_64 generator(options.seed);
  std::vector<double> estimates(static_cast<size_t>(options.resamples));
  std::vector<double> resample(differences.size());
  std::vector<double> averages;
  for (double& estimate : estimates) {
    for (double& value : resample) value = differences[index_below(generator, differences.size())];
    estimate = median_of_averages(resample, averages);
  }
  const double tail = (1 - options.confidence) / 2;
  return {quantile(estimates, tail), quantile(estimates, 1 - tail)};
}

}  // namespace noisemark::reports
