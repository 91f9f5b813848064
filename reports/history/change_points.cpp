#include "reports/history/change_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "reports/base/statistics.h"

namespace noisemark::reports {
namespace {

/// Equal up to the rounding of sums in another order.
constexpr double kRounding = 1e-9;

/// Sums of distances in one series while its end moves on, value by value. A split at `at` has the
/// values [0, at) on its left and [at, end) on its right.
class MovingEnd {
 public:
  explicit MovingEnd(size_t size) : within_left_(size + 1), within_right_(size), between_(size) {}

  /// Takes in the value behind the end.
  void add(std::span<const double> values, size_t end) {
    double to_all = 0;
    for (size_t i = 0; i < end; ++i) to_all += std::abs(values[end] - values[i]);
    double to_left = 0;
    for (size_t at = 1; at <= end; ++at) {
      to_left += std::abs(values[end] - values[at - 1]);
      between_[at] += to_left;
      within_right_[at] += to_all - to_left;
    }
    within_left_[end + 1] = within_left_[end] + to_all;
  }

  /// The scaled energy distance of the parts, for at least two values in each.
  [[nodiscard]] double energy(size_t at, size_t end) const {
    const auto n = static_cast<double>(at);
    const auto m = static_cast<double>(end - at);
    const double within = m * within_left_[at] / (n - 1) + n * within_right_[at] / (m - 1);
    return 2 * (between_[at] - within) / (n + m);
  }

 private:
  std::vector<double> within_left_;   ///< sum for each size of the left part
  std::vector<double> within_right_;  ///< sum for each split
  std::vector<double> between_;       ///< sum for each split
};

using Bounds = std::vector<size_t>;  ///< bounds of the parts: 0, the changes, the number of values

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

/// The p-value of the hypothesis that within the parts every order was equally likely.
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
  std::vector<double> greatest(size, -std::numeric_limits<double>::infinity());  // each split's
  MovingEnd sums(size);
  for (size_t end = 1; end <= size; ++end) {
    sums.add(values, end - 1);
    for (size_t at = shortest; at + shortest <= end; ++at) {
      greatest[at] = std::max(greatest[at], sums.energy(at, end));
    }
  }
  Split best = {shortest, greatest[shortest]};
  for (size_t at = shortest + 1; at + shortest <= size; ++at) {
    if (greatest[at] > best.energy + kRounding * std::abs(best.energy)) best = {at, greatest[at]};
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
