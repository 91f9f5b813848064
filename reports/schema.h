#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace noisemark::reports {

/// The text of reports/schema/result.schema.json (JSON Schema draft-07), built into the binary.
[[nodiscard]] std::string_view result_schema();

/// How a JSON text departs from the schema, one sentence each with the path; empty when it holds.
[[nodiscard]] std::vector<std::string> schema_problems(std::string_view text);

}  // namespace noisemark::reports
