#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/cli/commands.h"

namespace noisemark::suite {

/// What followed a command, checked against its table entry.
class Arguments {
 public:
  /// Throws Error (exit code 2): unknown flag (with the nearest), missing or surplus value,
  /// a flag given twice, wrong number of arguments.
  Arguments(const Command& command, const std::vector<std::string>& words);

  [[nodiscard]] bool wants_help() const { return has("help"); }
  [[nodiscard]] bool has(const std::string& flag) const;
  /// Empty when it was not given.
  [[nodiscard]] std::string text(const std::string& flag) const;
  [[nodiscard]] std::vector<std::string> texts(const std::string& flag) const;
  /// Throws Error (exit code 2) when it is no integer of at least `minimum`.
  [[nodiscard]] std::optional<int64_t> integer(const std::string& flag, int64_t minimum) const;
  /// Throws Error (exit code 2) when it is no finite number of at least `minimum`.
  [[nodiscard]] std::optional<double> number(const std::string& flag, double minimum) const;
  /// What is not a flag.
  [[nodiscard]] const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::vector<std::string>> flags_;
  std::vector<std::string> positional_;
};

}  // namespace noisemark::suite
