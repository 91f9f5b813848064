#pragma once

#include <span>
#include <string>
#include <vector>

#include "memopt/example/models.h"

namespace example {

/// The rows of the table in memopt/README.md. "budget:saved=60%" stands for three fifths of the
/// most that mode "none" holds, in bytes.
[[nodiscard]] std::vector<std::string> modes_of_table();

/// The bytes that each mode holds beside mode "none" on each model.
struct Table {
  std::string markdown;
  /// The reasons where a mode saves next to nothing or a budget is refused.
  std::vector<std::string> in_the_way;
  /// "gpt under echo: above its budget"; empty where every mode kept its promises.
  std::vector<std::string> broken;
};

/// Trains each of `tasks` under mode "none" and under each of `modes`. Throws std::invalid_argument
/// for a mode that is spelled wrong, before anything is trained.
[[nodiscard]] Table make_table(const std::vector<TaskEntry>& tasks,
                               const std::vector<std::string>& modes);

}  // namespace example
