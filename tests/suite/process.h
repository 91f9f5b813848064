#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/suite/scratch.h"

namespace noisemark::suite::test {

struct Finished {
  int code = -1;    ///< 128 + signal when killed by one
  std::string out;  ///< standard output
  std::string err;  ///< standard error
  [[nodiscard]] std::string both() const { return out + err; }
  /// Standard error without the lines of progress that a log gets every half minute: a slow machine
  /// has more of them than a fast one.
  [[nodiscard]] std::string said() const;
};

/// The variables beside those of this process's environment; an empty value removes a variable.
using Variables = std::map<std::string, std::string>;

/// The real `noisemark` with these arguments; `shell_prefix` are commands of sh before it, for
/// limits that only a shell can set ("ulimit -v ...").
[[nodiscard]] std::vector<std::string> noisemark_command(const std::vector<std::string>& arguments,
                                                         const std::string& shell_prefix = "");

/// A process in a group of its own, with one thread for LibTorch and no input.
class Process {
 public:
  enum class StandardError { kFile, kTerminal };

  explicit Process(std::vector<std::string> command, const Variables& variables = {},
                   StandardError error = StandardError::kFile);
  ~Process();  ///< kills it and its children if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  /// Sends it as a parent does that passes on a signal of its own.
  void pass_on(int number) const;
  /// Sends it to its children too, as a terminal's Ctrl-C.
  void signal_all(int number) const;
  [[nodiscard]] Finished wait();
  [[nodiscard]] bool running() const;

 private:
  class Streams;

  pid_t pid_ = 0;
  std::unique_ptr<Streams> streams_;
};

/// Starts `noisemark`, waits, returns.
[[nodiscard]] Finished run_noisemark(const std::vector<std::string>& arguments,
                                     const Variables& variables = {});

/// The same where no images are at hand and nothing is asked of the machine, unless `variables`
/// do.
[[nodiscard]] Finished noisemark(const std::vector<std::string>& arguments,
                                 Variables variables = {});

/// Expects that noisemark() refuses the arguments with this message.
void expect_bad_input(const std::vector<std::string>& arguments, const std::string& message);

/// Runs `noisemark` after commands of a shell.
[[nodiscard]] Finished run_noisemark_after(const std::string& shell_prefix,
                                           const std::vector<std::string>& arguments);

/// Measures this process, which has loaded the libraries that the program loads.
[[nodiscard]] int64_t address_space_kib();

/// The process of a rank whose output goes to `out`; empty without one.
[[nodiscard]] std::optional<pid_t> process_of(const std::filesystem::path& out, int64_t rank);

/// Waits until `path` exists and holds `text`; false after a minute.
[[nodiscard]] bool wait_for_file(const std::filesystem::path& path, const std::string& text = "");

}  // namespace noisemark::suite::test
