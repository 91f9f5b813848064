#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace noisemark::reports {

/// What ties a report to the result that it was rendered from.
struct Mark {
  std::string run_id;
  std::string result_sha256;  ///< of the bytes of result.json
};

/// The comment with which report.md begins: one line, invisible once rendered.
[[nodiscard]] std::string mark_line(const Mark& mark);

/// The mark of a report's text; empty when it has none or a malformed one.
[[nodiscard]] std::optional<Mark> read_mark(std::string_view text);

}  // namespace noisemark::reports
