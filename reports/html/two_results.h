#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"
#include "reports/html/page.h"

namespace noisemark::reports {

/// Two results side by side as a table of HTML: a row for each field of either, and those that
/// differ are marked. A list of more than 16 items is one row, which says how many of them differ.
[[nodiscard]] std::string field_table(const nlohmann::ordered_json& base,
                                      const nlohmann::ordered_json& other);

/// The page of a comparison, whole, and behind it the first runs of each cell that both sides have,
/// field by field.
[[nodiscard]] HtmlPage page_of_sides(const Comparison& comparison, const Side& base,
                                     const Side& candidate);

}  // namespace noisemark::reports
