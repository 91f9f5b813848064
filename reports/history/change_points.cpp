#include "reports/history/change_points.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "reports/random_index.h"

namespace noisemark::reports {
namespace {

/// Equal up to the rounding of sums in another order.
constexpr double kRounding = 1e-9;

/// Numbers and sums of the values seen so far, by rank (Fenwick 1994).
class SeenValues {
 public:
  explicit SeenValues(size_t ranks) : count_(ranks + 1), sum_(ranks + 1) {}

  /// Sum of the distances from `value` to all values seen, and then sees it.
  double add(size_t rank, double value) {
    double below_count = 0;
    double below_sum = 0;
    for (size_t i = rank + 1; i > 0; i &= i - 1) {
      below_count += count_[i];
      below_sum += sum_[i];
    }
    const double above_count = all_count_ - below_count;
    const double above_sum = all_sum_ - below_sum;
    for (size_t i = rank + 1; i < count_.size(); i += i & (~i + 1)) {
      count_[i] += 1;
      sum_[i] += value;
    }
    all_count_ += 1;
    all_sum_ += value;
    return value * below_count - below_sum + above_sum - value * above_count;
  }

 private:
  std::vector<double> count_;
  std::vector<double> sum_;
  double all_count_ = 0;
  double all_sum_ = 0;
};

std::vector<size_t> ranks_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<size_t> ranks;
  for (const double value : values) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
    ranks.push_back(static_cast<size_t>(at - sorted.begin()));
  }
  return ranks;
}

/// Element k: the sum of the distances within the first k values.
std::vector<double> within(std::span<const double> values, std::span<const size_t> ranks) {
  SeenValues seen(values.size());
  std::vector<double> sums = {0};
  for (size_t i = 0; i < values.size(); ++i) {
    sums.push_back(sums.back() + seen.add(ranks[i], values[i]));
  }
  return sums;
}

double pairs(double count) {
  return count * (count - 1) / 2;
}

using Bounds = std::vector<size_t>;  ///< of the parts: 0, the changes, the number of values

Split best_of_parts(std::span<const double> values, const Bounds& bounds, size_t shortest) {
  Split best;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    Split split = best_split(values.subspan(bounds[i], bounds[i + 1] - bounds[i]), shortest);
    if (split.at == 0) continue;
    split.at += bounds[i];
    if (best.at == 0 || split.energy > best.energy) best = split;
  }
  return best;
}

void shuffle_parts(std::vector<double>& values, const Bounds& bounds, std::mt19937_64& generator) {
  for (size_t part = 0; part + 1 < bounds.size(); ++part) {
    for (size_t i = bounds[part + 1] - 1; i > bounds[part]; --i) {
      const size_t other = bounds[part] + index_below(generator, i - bounds[part] + 1);
      std::swap(values[i], values[other]);
    }
  }
}

/// Of the hypothesis that within the parts every order was equally likely.
double p_of(const Split& found, std::vector<double> values, const Bounds& bounds,
            const ChangePointOptions& options, std::mt19937_64& generator) {
  const auto all = static_cast<double>(options.permutations + 1);
  int64_t as_great = 1;
  for (int64_t i = 0; i < options.permutations; ++i) {
    shuffle_parts(values, bounds, generator);
    const Split split = best_of_parts(values, bounds, options.shortest);
    as_great += split.energy >= found.energy * (1 - kRounding) ? 1 : 0;
    // No further permutation can bring p below the level again.
    if (static_cast<double>(as_great) > options.level * all) break;
  }
  return static_cast<double>(as_great) / all;
}

void check(std::span<const double> values, const ChangePointOptions& options) {
  const bool finite =
      std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  if (!finite) throw std::logic_error("change_points: a value is not finite");
  const bool sensible = options.level > 0 && options.level < 1 && options.shortest >= 2;
  if (!sensible || options.level * static_cast<double>(options.permutations + 1) < 1) {
    throw std::logic_error("change_points: these options can find no change");
  }
}

}  // namespace

Split best_split(std::span<const double> values, size_t shortest) {
  const size_t size = values.size();
  if (size < 2 * shortest) return {};
  // Differences from a value in the middle: sums of large equal parts would lose the digits.
  std::vector<double> near(values.begin(), values.end());
  const double shift = near[size / 2];
  for (double& value : near) value -= shift;
  std::vector<size_t> ranks = ranks_of(near);
  const std::vector<double> left = within(near, ranks);
  std::reverse(near.begin(), near.end());
  std::reverse(ranks.begin(), ranks.end());
  const std::vector<double> right = within(near, ranks);
  Split best;
  for (size_t at = shortest; at + shortest <= size; ++at) {
    const auto n = static_cast<double>(at);
    const auto m = static_cast<double>(size - at);
    const double between = left[size] - left[at] - right[size - at];
    const double distance =
        2 * between / (n * m) - left[at] / pairs(n) - right[size - at] / pairs(m);
    const double energy = n * m / (n + m) * distance;
    if (best.at == 0 || energy > best.energy) best = {at, energy};
  }
  return best;
}

size_t fewest_values(const ChangePointOptions& options) {
  size_t size = 2 * options.shortest;
  // The orders that split as well as the best one: both parts in any order, and the reverse.
  const auto smallest_p = [](size_t n) {
    const auto whole = static_cast<double>(n);
    const auto half = static_cast<double>(n / 2);
    return 2 *
           std::exp(std::lgamma(half + 1) + std::lgamma(whole - half + 1) - std::lgamma(whole + 1));
  };
  while (smallest_p(size) > options.level) ++size;
  return size;
}

std::vector<ChangePoint> change_points(std::span<const double> values,
                                       const ChangePointOptions& options) {
  check(values, options);
  std::mt19937_64 generator(options.seed);
  const std::vector<double> series(values.begin(), values.end());
  Bounds bounds = {0, values.size()};
  std::vector<ChangePoint> changes;
  while (true) {
    const Split found = best_of_parts(values, bounds, options.shortest);
    if (found.at == 0 || !(found.energy > 0)) break;
    const double p = p_of(found, series, bounds, options, generator);
    if (p > options.level) break;
    changes.push_back({found.at, p});
    bounds.insert(std::upper_bound(bounds.begin(), bounds.end(), found.at), found.at);
  }
  std::sort(changes.begin(), changes.end(),
            [](const ChangePoint& a, const ChangePoint& b) { return a.at < b.at; });
  return changes;
}

}  // namespace noisemark::reports
