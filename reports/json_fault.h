#pragma once

#include <string>
#include <string_view>

namespace noisemark::reports {

/// Where a text that is no JSON stops being it: «from line 2, column 8 on», «it ends too early»,
/// «it is empty», or that a number is too large. Empty for JSON.
[[nodiscard]] std::string json_fault(std::string_view text);

}  // namespace noisemark::reports
