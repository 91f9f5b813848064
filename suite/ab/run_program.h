#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace noisemark::suite {

/// Runs a program to its end, found as a shell finds it, without input; what it says on both
/// streams is appended to `log`. Its exit code, 128 + signal when one ended it, 127 when there is
/// no such program.
[[nodiscard]] int run_program(std::vector<std::string> command, const std::filesystem::path& log);

/// An empty folder of its own, removed with the object. Throws Error (cannot write).
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace noisemark::suite
