#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "suite/cli/commands.h"
#include "suite/cli/options.h"

namespace noisemark::suite {

/// One command line, read and checked.
struct CommandLine {
  std::string_view command;             ///< its name
  std::vector<std::string> positional;  ///< all that is no option
  Options options;
  std::vector<std::string> given;  ///< names of the options that were typed or in their file
  std::vector<std::string> argv;   ///< the words that a result keeps
  bool help = false;               ///< --help; nothing else was checked
  /// The place of each option, "mine.toml:2:8": where the file of options gives it a value that
  /// counts.
  std::map<std::string, std::string> places = {};

  [[nodiscard]] bool has(std::string_view option) const;
};

/// Returns where the file of options gave the option that a refusal begins with ("--mode: ...");
/// empty where it was typed, or none.
[[nodiscard]] std::string place_of_option(const CommandLine& line, std::string_view refusal);

/// Reads the words behind a command. `argv` is the whole line as typed; where a file of options
/// (--flags) was given, what the file says takes its place in CommandLine::argv. Throws Error (exit
/// code 2): unknown option (with the nearest), missing or surplus value, a value that the option
/// does not take, an option given twice, wrong number of arguments.
[[nodiscard]] CommandLine read_command_line(const Command& command,
                                            const std::vector<std::string>& words,
                                            const std::vector<std::string>& argv);

/// Replaces `--flags FILE` among the words of a command by what that TOML file says: its keys are
/// the command's options by name. A switch is true or false; an option that may be repeated takes a
/// list too. An option that was typed wins over the file's. So the words, which a result keeps, say
/// all and need no file. `places` takes CommandLine::places. Throws Error (exit code 2): file
/// missing or no TOML, unknown option (with the nearest), value of the wrong type.
[[nodiscard]] std::vector<std::string> with_flag_file(const Command& command,
                                                      const std::vector<std::string>& words,
                                                      std::map<std::string, std::string>& places);

/// Returns the path without links and without the slash that a shell adds.
[[nodiscard]] std::filesystem::path plain_path(const std::filesystem::path& path);

/// Throws Error (exit code 2) where --out would cost what is there: where it names a file that the
/// command reads, by whatever name or link, a part of the results in a folder, or the folder of a
/// run to a command that writes other things. Without --force also where a file is there that
/// the command did not write, which its bytes show; what an earlier --out left is replaced.
void require_own_output(const Command& command, const CommandLine& line);

/// Throws Error (exit code 2), naming every one, where `report` would write over a report, a plot
/// or what a link leads to that it did not write, and no --force is given.
void require_own_reports(const CommandLine& line);

}  // namespace noisemark::suite
