#pragma once

#include <string>
#include <string_view>

namespace noisemark::reports {

inline constexpr int kMostNested = 100;  ///< lists and objects within each other; ours have ten

/// Returns whether a text of JSON, or nearly, opens more of them within each other. Whoever copies,
/// prints or compares such a value would need a stack without end.
[[nodiscard]] bool is_nested_too_deeply(std::string_view text);

/// Throws Error (bad input), which begins with `where`, for such a text.
void require_shallow(std::string_view text, const std::string& where);

}  // namespace noisemark::reports
