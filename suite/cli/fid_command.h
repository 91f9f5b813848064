#pragma once

#include <string>

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"

namespace noisemark::suite {

/// `noisemark fid`: the distance of the two sets as Markdown, or JSON, with the exit code of the
/// gate behind --max; with --out the moments of the first go to a file. `data` is the folder of a
/// dataset's files. Throws Error: exit code 2 for bad input and for a gate that too few samples
/// cannot decide, 3 for features of different extractors, 74 when a file cannot be written, 77 when
/// data or weights are needed and not given.
[[nodiscard]] Answer measure_sets(const Arguments& arguments, const std::string& data);

}  // namespace noisemark::suite
