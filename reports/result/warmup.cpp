#include "reports/result/warmup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "reports/base/statistics.h"

namespace noisemark::reports {
namespace {

constexpr size_t kSmallestWindow = 4;
constexpr size_t kLargestWindow = 32;
constexpr double kSmallestTolerance = 0.005;
constexpr double kLargestTolerance = 0.10;
constexpr double kStandardErrors = 3;
constexpr double kOutlierDeviations = 5;
constexpr double kOutlierFloor = 0.05;
constexpr double kMadToDeviation = 1.4826;       // factor of a normal distribution
constexpr double kMedianStandardError = 1.2533;  // times deviation / sqrt(n), normal distribution

// A steady step, as the second half of the run shows it.
struct Level {
  double median_s = 0;
  double noise_frac = 0;  ///< standard deviation of one step / median

  [[nodiscard]] double tolerance(size_t steps) const {
    const double error = kMedianStandardError * std::sqrt(2.0) * noise_frac;
    return std::max(kSmallestTolerance,
                    kStandardErrors * error / std::sqrt(static_cast<double>(steps)));
  }
  [[nodiscard]] double difference(double a_s, double b_s) const {
    return std::abs(a_s - b_s) / median_s;
  }
  [[nodiscard]] bool outlier(double step_s) const {
    return difference(step_s, median_s) > std::max(kOutlierFloor, kOutlierDeviations * noise_frac);
  }
};

Level level_of(std::span<const double> half) {
  std::vector<double> jumps;
  for (size_t i = 1; i < half.size(); ++i) jumps.push_back(std::abs(half[i] - half[i - 1]));
  Level level;
  level.median_s = median(half);
  level.noise_frac = kMadToDeviation * median(jumps) / std::sqrt(2.0) / level.median_s;
  return level;
}

void require_valid(std::span<const double> step_s) {
  for (const double value : step_s) {
    if (!std::isfinite(value) || value < 0) {
      throw std::logic_error("detect_warmup: a step time is negative or not finite");
    }
  }
}

// Returns true when two windows from `begin` are level with each other and with the second half.
bool settled_at(std::span<const double> step_s, size_t begin, size_t window, const Level& level) {
  if (level.outlier(step_s[begin])) return false;
  const double first = median(step_s.subspan(begin, window));
  const double second = median(step_s.subspan(begin + window, window));
  const double limit = level.tolerance(window);
  return level.difference(first, second) < limit &&
         level.difference(first, level.median_s) < limit &&
         level.difference(second, level.median_s) < limit;
}

Warmup unstable(size_t steps, const std::string& why) {
  return {static_cast<int64_t>(steps / 2), false, why + "; the first half is left out"};
}

Warmup settled(size_t steps, size_t window, double tolerance) {
  const std::string rule =
      fmt::format("two windows of {} steps agree within {:.1f} % with the second half of the run",
                  window, 100 * tolerance);
  if (steps == 0) return {0, true, "steady from the first step: " + rule};
  return {static_cast<int64_t>(steps), true,
          fmt::format("after {} {} {}", steps, steps == 1 ? "step" : "steps", rule)};
}

}  // namespace

Warmup detect_warmup(std::span<const double> step_s) {
  require_valid(step_s);
  const size_t n = step_s.size();
  if (n < kFewestStepsToTell) {
    return {0, false,
            fmt::format("{} steps are too few to tell (at least {}); none is left out", n,
                        kFewestStepsToTell)};
  }
  const Level level = level_of(step_s.subspan(n / 2));
  if (level.median_s <= 0) return unstable(n, "the clock did not advance in half of the steps");

  const size_t quarter = n / 4;
  const double limit = level.tolerance(quarter);
  const double drift = level.difference(median(step_s.subspan(n - 2 * quarter, quarter)),
                                        median(step_s.subspan(n - quarter, quarter)));
  if (limit > kLargestTolerance) {
    return unstable(
        n, fmt::format("too noisy to tell: one step varies by {:.1f} %", 100 * level.noise_frac));
  }
  if (drift >= limit) {
    return unstable(n, fmt::format("the medians of the last two quarters differ by {:.1f} % "
                                   "(limit {:.1f} %)",
                                   100 * drift, 100 * limit));
  }
  const size_t window = std::clamp(n / 8, kSmallestWindow, kLargestWindow);
  for (size_t begin = 0; begin <= n / 2; ++begin) {
    if (begin + 2 * window > n) break;
    if (settled_at(step_s, begin, window, level)) {
      return settled(begin, window, level.tolerance(window));
    }
  }
  return unstable(n, fmt::format("no two windows of {} steps agree in the first half", window));
}

std::string_view rate_caveat(bool stable) {
  return stable ? "" : " (not steady)";
}

}  // namespace noisemark::reports
