#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "reports/result.h"

namespace noisemark::reports {

/// What is missing is null, as in every JSON file that the reports write.
template <typename T>
[[nodiscard]] nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

[[nodiscard]] inline nlohmann::ordered_json or_null(const std::optional<Interval>& value) {
  if (!value) return nullptr;
  return {{"low", value->low}, {"high", value->high}};
}

}  // namespace noisemark::reports
