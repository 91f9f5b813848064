#pragma once

#include <string>

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"

namespace noisemark::suite {

/// `noisemark fid`: the distance of the two sets as Markdown, or JSON; with --out the moments of
/// the first go to a file. The gate behind --min and --max is judged by the interval of features
/// drawn again (--bootstrap): its exit code is 0 where that lies within, 1 where it lies outside, 4
/// across an end of the range; with --bootstrap 0 by the value alone. `data` is the folder of a
/// dataset's files. Throws Error: exit code 2 for bad input and for a gate that cannot be decided
/// (too few samples, one set of which nobody says what made it, an interval of moments alone), 3
/// for features of different extractors, 74 when a file cannot be written, 77 when data or weights
/// are needed and not given.
[[nodiscard]] Answer measure_sets(const Arguments& arguments, const std::string& data);

}  // namespace noisemark::suite
