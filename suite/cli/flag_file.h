#pragma once

#include <string>
#include <vector>

#include "suite/cli/arguments.h"
#include "suite/cli/commands.h"

namespace noisemark::suite {

/// The words of a command with what the file of `--flags FILE` says in place of these two: a TOML
/// file whose keys are the command's flags by name. A switch is true or false, a flag that may be
/// repeated takes a list too. A flag that was typed wins over the file's. So the words, which a
/// result keeps, say all and need no file.
///
/// `typed` are the same words, read. Throws Error, exit code 2: file missing or no TOML, unknown
/// flag (with the nearest), value of the wrong type.
[[nodiscard]] std::vector<std::string> with_flag_file(const Command& command,
                                                      const std::vector<std::string>& words,
                                                      const Arguments& typed);

}  // namespace noisemark::suite
