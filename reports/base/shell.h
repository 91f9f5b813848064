#pragma once

#include <string>

namespace noisemark::reports {

/// `word` as a command line of a shell has it: as it is where nothing in it is special, else in
/// quotes. Nothing in what comes back moves a terminal's cursor or direction.
[[nodiscard]] std::string shell_word(const std::string& word);

/// The same in quotes in any case.
[[nodiscard]] std::string quoted_shell_word(const std::string& word);

}  // namespace noisemark::reports
