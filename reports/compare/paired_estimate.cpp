#include "reports/compare/paired_estimate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
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

/// Of two of the values, or of one with itself.
struct Average {
  double value = 0;
  uint32_t first = 0;
  uint32_t second = 0;
};

/// The averages of all pairs of some values, in order. A resample holds no others: it only holds
/// each more or less often, so its median takes a walk and neither a sum nor a sort.
class OrderedAverages {
 public:
  explicit OrderedAverages(std::span<const double> values) {
    for (uint32_t i = 0; i < values.size(); ++i) {
      for (uint32_t j = i; j < values.size(); ++j) {
        averages_.push_back({(values[i] + values[j]) / 2, i, j});
      }
    }
    std::sort(averages_.begin(), averages_.end(),
              [](const Average& a, const Average& b) { return a.value < b.value; });
  }

  /// Of a resample of as many values, which holds value i `copies[i]` times.
  [[nodiscard]] double median(const std::vector<uint32_t>& copies) const {
    const size_t half = averages_.size() / 2;
    auto at = averages_.begin();
    size_t passed = times(*at, copies);
    while (passed < half) passed += times(*++at, copies);
    const double below = at->value;
    while (passed <= half) passed += times(*++at, copies);
    return averages_.size() % 2 == 1 ? at->value : (below + at->value) / 2;
  }

 private:
  static size_t times(const Average& average, const std::vector<uint32_t>& copies) {
    const size_t first = copies[average.first];
    const size_t second = copies[average.second];
    return average.first == average.second ? first * (first + 1) / 2 : first * second;
  }

  std::vector<Average> averages_;
};

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
  for (size_t i = 0; i < differences.size(); ++i) {
    for (size_t j = i; j < differences.size(); ++j) {
      averages.push_back((differences[i] + differences[j]) / 2);
    }
  }
  const auto half = averages.begin() + static_cast<std::ptrdiff_t>(averages.size() / 2);
  std::nth_element(averages.begin(), half, averages.end());
  if (averages.size() % 2 == 1) return *half;
  return (*std::max_element(averages.begin(), half) + *half) / 2;
}

BootstrapEstimates::BootstrapEstimates(std::span<const double> differences, int64_t resamples,
                                       uint64_t seed) {
  check(differences);
  if (resamples < 1) throw std::logic_error("bootstrap: no resamples asked for");
  const OrderedAverages averages(differences);
  std::mt19937_64 generator(seed);
  std::vector<uint32_t> copies(differences.size());
  estimates_.resize(static_cast<size_t>(resamples));
  for (double& estimate : estimates_) {
    std::fill(copies.begin(), copies.end(), 0U);
    for (size_t i = 0; i < copies.size(); ++i) ++copies[index_below(generator, copies.size())];
    estimate = averages.median(copies);
  }
}

Interval BootstrapEstimates::interval(double confidence) const {
  const double tail = (1 - confidence) / 2;
  return {quantile(estimates_, tail), quantile(estimates_, 1 - tail)};
}

Interval bootstrap_hodges_lehmann(std::span<const double> differences,
                                  const BootstrapOptions& options) {
  return BootstrapEstimates(differences, options.resamples, options.seed)
      .interval(options.confidence);
}

}  // namespace noisemark::reports
