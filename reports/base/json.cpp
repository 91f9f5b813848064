#include "reports/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace noisemark::reports {
namespace {

std::string place_of(std::string_view text, size_t offset) {
  if (text.empty()) return "it is empty";
  if (offset >= text.size()) return "it ends too early";
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t column = offset - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  return fmt::format("from line {}, column {} on", line, column);
}

}  // namespace

bool is_nested_too_deeply(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size() && depth <= kMostNested; ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
  }
  return depth > kMostNested;
}

void require_shallow(std::string_view text, const std::string& where) {
  if (!is_nested_too_deeply(text)) return;
  throw bad_input(where, "", "nested too deeply",
                  fmt::format("at most {} lists and objects deep", kMostNested));
}

std::string json_fault(std::string_view text) {
  if (is_nested_too_deeply(text)) return "it is nested too deeply";
  try {
    [[maybe_unused]] const auto json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return place_of(text, error.byte == 0 ? 0 : error.byte - 1);
  } catch (const nlohmann::json::out_of_range&) {
    return "a number is too large";
  }
  return "";
}

std::string line_of(const nlohmann::ordered_json& json) {
  if (!json.is_structured()) return json.dump();
  std::string text;
  for (const auto& item : json.items()) {
    if (!text.empty()) text += ", ";
    if (json.is_object()) text += nlohmann::ordered_json(item.key()).dump() + ": ";
    text += line_of(item.value());
  }
  return json.is_object() ? "{" + text + "}" : "[" + text + "]";
}

}  // namespace noisemark::reports
