#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/statistics.h"

namespace noisemark::reports {

/// A handler for nlohmann's parser, which keeps one of two equal keys of an object: a strict reader
/// has no favourite. Throws Error (bad input), which begins with `where`. One per text.
template <class Json>
class RefuseDoubles {
 public:
  explicit RefuseDoubles(std::string where) : where_(std::move(where)) {}

  bool operator()(int /*depth*/, typename Json::parse_event_t event, Json& parsed) {
    using Event = typename Json::parse_event_t;
    if (event == Event::object_start) open_objects_.emplace_back();
    if (event == Event::object_end) open_objects_.pop_back();
    if (event == Event::key &&
        !open_objects_.back().insert(parsed.template get<std::string>()).second) {
      throw bad_input(where_, parsed.template get<std::string>(), "this key twice in one object",
                      "every key once");
    }
    return true;
  }

 private:
  std::string where_;
  std::vector<std::set<std::string>> open_objects_;
};

namespace json {

/// The place of a value in the file: a chain of keys and indices on the stack, made into text only
/// for an error.
struct Path {
  const Path* parent = nullptr;
  std::string_view key;
  std::ptrdiff_t index = -1;  ///< place in a list; -1 where `key` counts

  [[nodiscard]] std::string text() const {
    std::string before = parent == nullptr ? "" : parent->text();
    if (index >= 0) return before + "[" + std::to_string(index) + "]";
    if (!before.empty() && !key.empty()) before += '.';
    return before += key;
  }
};

}  // namespace json

inline constexpr int kMostNested = 100;  ///< lists and objects within each other; ours have ten

/// Returns whether a text, of JSON or nearly, opens more than kMostNested of them within each
/// other. Whoever copies, prints or compares such a value would need a stack without end.
[[nodiscard]] bool is_nested_too_deeply(std::string_view text);

/// Throws Error (bad input), which begins with `where`, for such a text.
void require_shallow(std::string_view text, const std::string& where);

/// Names the place where a text stops being JSON: «from line 2, column 8 on», «it ends too early»,
/// «it is empty», or that a number is too large. It is empty for JSON.
[[nodiscard]] std::string json_fault(std::string_view text);

/// JSON on one line, with a space behind colons and commas.
[[nodiscard]] std::string line_of(const nlohmann::ordered_json& json);

/// A missing value is null, as in every JSON file that the reports write.
template <typename T>
[[nodiscard]] nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

[[nodiscard]] inline nlohmann::ordered_json or_null(const std::optional<Interval>& value) {
  if (!value) return nullptr;
  return {{"low", value->low}, {"high", value->high}};
}

}  // namespace noisemark::reports
