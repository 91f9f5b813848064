#pragma once

#include <string>

#include "reports/compare/comparison.h"

namespace noisemark::reports {

/// GitHub refuses a comment of more characters.
inline constexpr size_t kCommentLimit = 65536;

/// A comparison for people, fit for a pull request's comment: the verdict and its reasons, whether
/// the sides are comparable, the gates, what has no noise, who owns the memory, utilization,
/// quality, the noise, what to do next; everything else folded away, or left out where the text
/// would be longer than `limit` bytes. It ends with an invisible mark by which a script finds the
/// comment that it made. A pure function, byte for byte.
[[nodiscard]] std::string comparison_markdown(const Comparison& comparison,
                                              size_t limit = kCommentLimit);

/// Says what to do after a comparison, one sentence per line: how many more runs decide it, what to
/// mend, or, where it passes and NEW beats a kept baseline beyond the margin, the command that
/// makes NEW the baseline.
[[nodiscard]] std::string next_step(const Comparison& comparison);

}  // namespace noisemark::reports
