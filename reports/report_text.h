#pragma once

#include <string>
#include <string_view>

#include "reports/result.h"

namespace noisemark::reports {

/// Where the text of a report.md first departs from what its result renders to, one sentence; empty
/// when it does not. Only what the machine that rendered it decides is free: whether a plot is
/// there, or gnuplot's reason why not. `result_sha256` is of the bytes of result.json.
[[nodiscard]] std::string report_difference(std::string_view text, const Result& result,
                                            const std::string& result_sha256);

/// The same of the report of a suite, which is to be `rendered`.
[[nodiscard]] std::string text_difference(std::string_view text, std::string_view rendered);

}  // namespace noisemark::reports
