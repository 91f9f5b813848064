#pragma once

#include <string>

#include "reports/plot.h"
#include "reports/result.h"

namespace noisemark::reports {

/// report.md of one result: the verdict first, what changes from run to run last. A pure function,
/// byte for byte. `result_sha256` is of the bytes of result.json; it and the run id stand in the
/// first line (mark.h) and at the end.
[[nodiscard]] std::string render_report(const Result& result, const std::string& result_sha256,
                                        const Plots& plots);

/// "PASS", "FAIL", "CUSTOM (no gate of the definition applies)", "INTERRUPTED" ...
[[nodiscard]] std::string verdict_words(const Result& result);

/// "ho-cifar10@cpu"
[[nodiscard]] std::string benchmark_name(const Identity& identity);

}  // namespace noisemark::reports
