#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace noisemark::reports {

/// With fewer steps nothing can be told.
inline constexpr size_t kFewestStepsToTell = 16;

/// The beginning of the steady part of a run.
struct Warmup {
  int64_t steps = 0;    ///< number that is dropped from the front
  bool stable = false;  ///< the rest is level; when false, `steps` is half of the run, or 0
                        ///< when the run is too short to tell
  std::string reason;   ///< one sentence with the figures that decided
};

/// Finds the warm-up in the seconds of successive steps; nothing is assumed but their order.
///
/// Windows of w = n / 8 steps, at least 4 and at most 32. Two medians of m steps count as equal
/// when they differ by less than max(0.5 %, 3 standard errors of such a difference), with the noise
/// of a step estimated from successive differences, which a slow trend does not inflate. Then
///  1. the run is level when the medians of its third and last quarter are equal; else not stable;
///  2. warm-up ends at the first step from which two windows in a row have medians equal to each
///     other and to that of the second half, and which is itself no outlier of the second half
///     (5 standard deviations, at least 5 %).
/// Not stable either: equality would need more than 10 % (too noisy), or 2. finds nothing in the
/// first half. Fewer than kFewestStepsToTell are too few. Throws std::logic_error when a time is
/// negative or not finite.
[[nodiscard]] Warmup detect_warmup(std::span<const double> step_s);

/// The words behind every rate: empty, or " (not steady)" where the end of the warm-up was not
/// found, so that no figure looks better founded than it is.
[[nodiscard]] std::string_view rate_caveat(bool stable);

}  // namespace noisemark::reports
