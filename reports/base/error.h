#pragma once

#include <stdexcept>
#include <string>

namespace noisemark {

/// The exit codes of the process. Tests assert them and the README lists them.
enum class ExitCode : int {
  kPass = 0,
  kFailed = 1,    ///< failed gate, regression, or non-finite training
  kBadInput = 2,  ///< bad input or usage
  kNotComparable = 3,
  kInconclusive = 4,
  kBaselineNeeded = 5,  ///< calibration or baseline needed
  kInternal = 70,
  kOutOfMemory = 71,
  kCannotWrite = 74,           ///< a full disk, for example
  kCannotRead = kCannotWrite,  ///< a file that is there and allowed, and whose reading fails
  kCannotRunHere = 77,         ///< ctest shows Skipped
  kInterrupted = 130,
};

/// An error that a user can act on. Caught only in main, which prints what() and exits with code().
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// «where: what: found (accepted)», exit code 2. An empty part is left out with its separator.
[[nodiscard]] Error bad_input(const std::string& where, const std::string& what,
                              const std::string& found, const std::string& accepted);

}  // namespace noisemark
