#include "reports/json_fault.h"

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

std::string json_fault(std::string_view text) {
  try {
    [[maybe_unused]] const auto json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return place_of(text, error.byte == 0 ? 0 : error.byte - 1);
  } catch (const nlohmann::json::out_of_range&) {
    return "a number is too large";
  }
  return "";
}

}  // namespace noisemark::reports
