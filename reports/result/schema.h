#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace noisemark::reports {

/// JSON Schema (draft-07) of result.json, made from its fields (result_fields.h). The repository
/// keeps it as reports/result/result.schema.json for other programs.
[[nodiscard]] std::string result_schema();

/// Every field of result.json in tables of Markdown: reports/result/fields.md.
[[nodiscard]] std::string result_fields_markdown();

/// Says how a JSON text departs from the schema, a sentence each with the path; empty: it holds.
[[nodiscard]] std::vector<std::string> schema_problems(std::string_view text);

}  // namespace noisemark::reports
