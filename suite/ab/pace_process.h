#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "reports/ab/record.h"

namespace noisemark::suite {

/// One live `noisemark pace`, spoken to by lines (run.h says which). It has a group of its own, so
/// a terminal's Ctrl-C does not reach it, and it ends with its input, so nothing outlives this
/// process. Errors begin with `name` and carry the exit code that the process left with where that
/// is one of Noisemark's, and else kInternal: it ended, answered nonsense, or not at all.
class PaceProcess {
 public:
  /// How long an answer may take.
  static constexpr std::chrono::seconds kPatience{600};

  /// Starts `command`. Throws Error (bad input) when there is no such program.
  PaceProcess(std::string name, std::vector<std::string> command,
              std::chrono::milliseconds patience = kPatience);
  ~PaceProcess();  ///< kills it where it still runs
  PaceProcess(const PaceProcess&) = delete;
  PaceProcess& operator=(const PaceProcess&) = delete;

  /// Waits for the first answer; `name` of the build is left empty.
  [[nodiscard]] reports::AbBuild await_ready();
  /// One turn: as many times and losses as steps.
  [[nodiscard]] reports::AbTurn run(int64_t steps);
  /// Asks it to end, and waits. Throws Error when it ends with anything but 0.
  void quit();

 private:
  [[nodiscard]] std::string read_line();
  [[noreturn]] void fail(const std::string& words);
  [[noreturn]] void fail_ended();
  void send(const std::string& line) const;
  [[nodiscard]] int reap();

  std::string name_;
  std::chrono::milliseconds patience_;
  pid_t pid_ = 0;
  int to_child_ = -1;
  int from_child_ = -1;
  std::string buffer_;
};

}  // namespace noisemark::suite
