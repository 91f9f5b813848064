#pragma once

#include <sys/types.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace noisemark::suite {

/// A process to start.
struct ChildCommand {
  std::string program;                 ///< name or path that a shell would find
  std::vector<std::string> words;      ///< its arguments, beginning with its name
  std::vector<std::string> variables;  ///< "NAME=VALUE", its whole environment
  /// The file to which both of its streams are appended, and then it has no input; empty: it
  /// shares this process's streams.
  std::filesystem::path log = {};
  int kept = -1;  ///< a descriptor that the program keeps under its number; -1: none
};

/// Carries to a process what another program of ours that it started has to tell: whose result it
/// writes, and why it failed.
class [[nodiscard]] Cause {
 public:
  /// Throws std::system_error.
  Cause();
  ~Cause();
  Cause(const Cause&) = delete;
  Cause& operator=(const Cause&) = delete;
  /// The descriptor that the program keeps, of which kVariable tells it.
  [[nodiscard]] int kept() const { return ends_[1]; }
  struct Told {
    std::string words;   ///< why it failed; empty: it told nothing
    std::string run_id;  ///< names the run whose result its folder has; empty: it told of none
  };
  /// Returns what a program that has ended told: of several processes, what the first one did.
  [[nodiscard]] Told told() const;

  /// Returns whether a program of ours waits for what this process tells.
  [[nodiscard]] static bool is_awaited() noexcept;

  static constexpr const char* kVariable = "NOISEMARK_CAUSE";

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

/// Tells the words to the process that waits for them, if one does: as many as a pipe has room for.
void tell_cause(const std::string& words) noexcept;

/// Tells the same process the run whose result the folder has, or will have.
void tell_run(const std::string& run_id) noexcept;

/// Starts a process that does not outlive the thread which started it: the kernel kills it when
/// this process ends in whatever way. Returns its number once the program runs, so that no signal
/// is lost on the way. The caller waits for it. Throws std::system_error with the cause.
[[nodiscard]] pid_t start_child(ChildCommand command);

/// This process's environment as start_child() takes it.
[[nodiscard]] std::vector<std::string> own_variables();

}  // namespace noisemark::suite
