#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/result.h"

namespace noisemark::reports {

/// What two builds must agree in to do the same work on the same machine, by path in result.json:
/// cell, definition, data, settings, hardware and initial weights. Software is left out, for it may
/// be what is compared.
[[nodiscard]] Strings same_work(const Result& result);

/// In what two builds' work differs. A clocks policy that one of them does not tell is no
/// difference.
[[nodiscard]] std::vector<FieldDifference> work_differences(const Strings& a, const Strings& b,
                                                            const std::string& cell);

/// What tells builds apart: commit, digest of the program, software.
[[nodiscard]] Strings about_build(const Result& result);

}  // namespace noisemark::reports
