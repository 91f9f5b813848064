#pragma once

#include <string>

#include "reports/collect.h"
#include "reports/compare/comparison_markdown.h"

namespace noisemark::reports {

/// Results as the text of a pull request's comment: verdict, runs side by side, who owns the bytes
/// at the peak, utilization, quality; what else is known of each run folded away. Where that is
/// more than `limit` bytes, details are left out, and said to be.
[[nodiscard]] std::string summary_markdown(const CollectedResults& results,
                                           size_t limit = kCommentLimit);

}  // namespace noisemark::reports
