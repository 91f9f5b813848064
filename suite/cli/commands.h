#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace noisemark::suite {

struct Flag {
  std::string_view name;   ///< without the dashes
  std::string_view value;  ///< what stands for it in the help, "DIR"; empty: a switch
  std::string_view help;
  bool repeatable = false;
};

struct Command {
  std::string_view name;
  std::string_view arguments;  ///< what is not a flag: "ID", "DIR..."
  std::string_view summary;
  std::string_view details;  ///< paragraphs of the command's help
  std::vector<Flag> flags;
  int min_arguments = 0;
  int max_arguments = 0;  ///< -1: any number
};

/// Every command, in the order that help shows them. This table is the only text about the command
/// line: `--help`, the parser and the README's section are made from it.
[[nodiscard]] const std::vector<Command>& commands();

/// Throws Error (exit code 2) with the nearest command.
[[nodiscard]] const Command& find_command(std::string_view name);

[[nodiscard]] std::string overview_text();
[[nodiscard]] std::string help_text(const Command& command);
/// The README's section: every command, its flags, the exit codes.
[[nodiscard]] std::string help_markdown();

}  // namespace noisemark::suite
