#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace noisemark::suite::test {

struct Finished {
  int exit_code = -1;  ///< 128 + signal when killed by one
  std::string output;  ///< standard output and error together
};

/// The real `noisemark`, as a process of its own, one thread. Environment variables come as
/// "NAME=value".
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const std::filesystem::path& log,
          const std::vector<std::string>& environment = {});
  ~Process();  ///< kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  [[nodiscard]] Finished wait();
  [[nodiscard]] bool running() const;

 private:
  pid_t pid_ = 0;
  std::filesystem::path log_;
};

/// Starts, waits, returns.
[[nodiscard]] Finished run_noisemark(const std::vector<std::string>& arguments,
                                     const std::vector<std::string>& environment = {});

/// The same through `sh -c PREFIX; exec noisemark ...`, for limits that only a shell can set
/// ("ulimit -v ...").
[[nodiscard]] Finished run_noisemark_after(const std::string& shell_prefix,
                                           const std::vector<std::string>& arguments);

/// Waits until `path` exists; false after `limit`.
[[nodiscard]] bool wait_for_file(const std::filesystem::path& path, std::chrono::seconds limit);

/// An empty folder of the running test, removed when the object dies.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace noisemark::suite::test
