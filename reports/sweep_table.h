#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/result.h"

/// One benchmark trained under every combination of some settings, as a table. It judges nothing.
namespace noisemark::reports {

/// One combination.
struct SweepRow {
  std::string name;                 ///< of its folder
  std::vector<std::string> values;  ///< one for each key of the sweep
  std::optional<Result> result;     ///< that it left
  std::optional<int> exit_code;     ///< empty: it was not begun
  std::string words;                ///< why it left no result
};

struct Sweep {
  std::string title;  ///< of what: "gmm16@cpu"
  std::vector<std::string> keys;
  std::vector<SweepRow> rows;
};

/// How many cells ended how, a row for every cell, and what those said that did not pass. Times are
/// beside the first row's.
[[nodiscard]] std::string sweep_markdown(const Sweep& sweep);

}  // namespace noisemark::reports
