#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

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

/// The status of a run that an error ended, in its result and in suite.json: "out of memory".
[[nodiscard]] std::string error_status(ExitCode code);

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

namespace noisemark::reports {

/// ASCII letters become small; all else stays.
[[nodiscard]] std::string lower_case(std::string_view text);

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours,
/// one each, letter case ignored. Stops early and returns `limit + 1` once it must exceed `limit`.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b, size_t limit);

/// The valid name that a user most likely meant: the one at the smallest distance, the first of
/// equals; empty when even that is farther than a third of the name's length (at least 2).
[[nodiscard]] std::optional<std::string> nearest(std::string_view name,
                                                 std::span<const std::string> valid);

/// The `accepted` part of an error: «nearest "gist"; one of: none, echo, gist», or without the
/// first half when nothing is near.
[[nodiscard]] std::string accepted_names(std::string_view name, std::span<const std::string> valid);

/// The one translation of what the operating system refused (std::filesystem::filesystem_error,
/// std::ios_base::failure, std::thread's std::system_error) into an error that a user can act on,
/// with the path and the system's own words:
///
/// | exit code | cause |
/// |---|---|
/// | 71 | no more memory, threads, processes or open files can be had |
/// | 74 | a path cannot be written, there is no room, or a device fails |
/// | 2 | a path cannot be read or looked at |
/// | 70 | anything that has no path: then it is the program's own mistake |
[[nodiscard]] Error error_of(const std::system_error& error);

/// Returns that error for a file which `cause` (of errno) keeps from being written.
[[nodiscard]] Error not_written(const std::filesystem::path& path, int cause);

}  // namespace noisemark::reports
