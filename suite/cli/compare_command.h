#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/error.h"
#include "suite/cli/arguments.h"

namespace noisemark::suite {

/// What a command says and leaves with.
struct Answer {
  std::string text;
  ExitCode code = ExitCode::kPass;
  std::string warning = {};  ///< for standard error, whatever the format; empty: none
};

/// The formats of a comparison, "md" first.
[[nodiscard]] std::vector<std::string> comparison_formats();

/// Any of them but "md", which each command has its own of.
[[nodiscard]] std::string comparison_text(const reports::Comparison& comparison,
                                          const std::string& format);

/// --inconclusive of a command, for Comparison::inconclusive.
[[nodiscard]] reports::Inconclusive inconclusive_of(const Arguments& arguments,
                                                    std::string_view command);

/// `noisemark compare`: the comparison in the format asked for, and the exit code of its verdict.
/// Throws Error (exit code 2) for bad input or an unknown word behind an option.
[[nodiscard]] Answer compare_results(const Arguments& arguments);

}  // namespace noisemark::suite
