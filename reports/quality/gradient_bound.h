#pragma once

#include <span>
#include <string_view>

#include "reports/result.h"

/// Tier 1: how far one step of a lossy mode may move the gradient.
namespace noisemark::reports {

struct CodecBound {
  std::string_view codec;  ///< as modes spell it
  double bound = 0;        ///< of |g - g0| / |g0|, all gradients together
};

/// Of every codec, the finest first. Twice what the codec may do to one value, or more where the
/// trainings of the suites showed more (reports/README.md has the figures):
///   dpr16  2^-10  float16 rounds to 2^-11 of a value
///   dpr10  2^-4   four bits of mantissa: 2^-5
///   dpr8   2^-3   three bits of mantissa: 2^-4
///   q4     0.3    15 steps from the least to the greatest of 256 values: 0.15 of their deviation
///   q2     0.7    beyond it no step is sure to go down: an angle of more than 45 degrees
[[nodiscard]] std::span<const CodecBound> codec_bounds();

/// What a step's gradient may be off by, beyond which training is another one: at an angle of at
/// most 45 degrees to the exact step it still goes down.
inline constexpr double kLoosestGradientBound = 0.7;
/// A budget promises its error of the step that it was planned by; another one has other values.
inline constexpr double kBudgetSlack = 2;

/// quality.gradient_error_max of the run's definition, where it sets one. Else of its mode: for a
/// budget kBudgetSlack times the error that it allows; for a mode with a codec ("echo+dpr8") the
/// codec's; else kLoosestGradientBound.
[[nodiscard]] double gradient_error_bound(const Result& result);

}  // namespace noisemark::reports
