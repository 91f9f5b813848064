#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/ab/record.h"
#include "reports/result/result.h"

/// A build of Noisemark: made from a revision, run once, or kept alive to run in turns.
namespace noisemark::suite {

/// Builds `noisemark` as it was at a revision of the repository around `from`, in a worktree of its
/// own at build/ab/COMMIT there, and returns the program's path. A commit that was built before
/// with the same words is not built again; a worktree that was deleted is made again. `configure`
/// are further words for cmake. What git and cmake say goes to
/// build/ab/COMMIT.log. Throws Error (bad input): no repository, no such revision, or it does not
/// build, with the log's path.
[[nodiscard]] std::filesystem::path build_revision(const std::string& revision,
                                                   const std::filesystem::path& from,
                                                   const std::vector<std::string>& configure);

/// Throws the same Error where there is no repository or no such revision, before anything is
/// built.
void require_revision(const std::string& revision, const std::filesystem::path& from);

/// Throws Error (bad input) unless `binary` is a program that answers --version as noisemark does,
/// with the system's words where it cannot be started, and else with its own. `name` begins it.
void require_noisemark(const std::string& name, const std::string& binary);

/// Runs a build once for its figures without noise: `BINARY run WORDS` with four steps and
/// `--deterministic`, so that its losses repeat. `words` are the benchmark and the options of
/// the turns; `name` begins every error. Returns nothing when an interrupt ended it. Throws Error:
/// it ended without a result (with its exit code where that is one of
/// Noisemark's, and the last line that it said), or its result cannot be read.
[[nodiscard]] std::optional<reports::Result> short_run(const std::string& name,
                                                       const std::string& binary,
                                                       const std::vector<std::string>& words);

/// One live `noisemark pace`, spoken to by lines (suite/run/run.h says which). It has a group of
/// its own, so a terminal's Ctrl-C does not reach it, and it ends with its input, so nothing
/// outlives this process. Errors begin with `name` and carry the exit code that the process left
/// with where that is one of Noisemark's, and else kInternal: it ended, answered nonsense, or not
/// at all.
class PaceProcess {
 public:
  /// The time that an answer may take.
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
