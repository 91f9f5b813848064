#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace noisemark::reports::json {

/// Where a value is in the file: a chain of keys and indices on the stack, made into text only for
/// an error.
struct Path {
  const Path* parent = nullptr;
  std::string_view key;
  std::ptrdiff_t index = -1;  ///< of a list; -1: `key` counts

  [[nodiscard]] std::string text() const {
    std::string before = parent == nullptr ? "" : parent->text();
    if (index >= 0) return before + "[" + std::to_string(index) + "]";
    if (!before.empty() && !key.empty()) before += '.';
    return before += key;
  }
};

}  // namespace noisemark::reports::json
