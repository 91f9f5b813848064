#pragma once

#include <string>
#include <string_view>

#include "reports/compare/comparison.h"

namespace noisemark::reports {

inline constexpr std::string_view kComparisonSchemaName = "noisemark.comparison";
inline constexpr std::string_view kComparisonSchemaVersion = "1.3.0";

/// comparison.json: keys are the field names of comparison.h in their order, verdicts by their
/// names, what is missing null. Doubles read back bit for bit.
[[nodiscard]] std::string comparison_json(const Comparison& comparison);

}  // namespace noisemark::reports
