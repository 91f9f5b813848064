#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "reports/base/error.h"

namespace noisemark::reports {

/// A regular file of which bytes are read. Each function throws Error, «PATH: cannot be read: ...»
/// with the system's own words: exit code 74 where a read fails, for the bytes are then not known
/// to be wrong.
class InputFile {
 public:
  /// Throws Error (bad input) where the file is missing, may not be read, or is no regular file: a
  /// pipe may never be written to, and a device need not end.
  explicit InputFile(std::filesystem::path path, const std::string& accepted = "a file");
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Bytes of the whole file. Throws Error (bad input) where its file system does not know them.
  [[nodiscard]] uint64_t size();
  /// Reads the next bytes, fewer than `count` only at the end. Returns how many.
  [[nodiscard]] uint64_t read_some(char* to, uint64_t count);
  /// Reads exactly that many. Throws Error (bad input) where the file ends before.
  void read(char* to, uint64_t count);
  /// Gives all that is left to `take`, a block at a time.
  void read_rest(const std::function<void(std::string_view)>& take);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Says why no file can be opened at `path`: kNotThere, kLinkToNothing, or what lies there instead
/// ("a pipe"). It is empty for a regular file. Throws Error where the path cannot be looked at.
[[nodiscard]] std::string why_no_file(const std::filesystem::path& path);
inline constexpr std::string_view kNotThere = "not there";
inline constexpr std::string_view kLinkToNothing = "a link to nothing";

/// Returns whether anything has the name `path`, a link to nothing too: reading it says what it is.
/// Throws std::filesystem::filesystem_error where the path cannot be looked at.
[[nodiscard]] bool is_named(const std::filesystem::path& path);

/// Returns the error of a file that was opened and could not be read, with the system's words for
/// `cause`. That is no mistake of the user's: exit code 74, or 71 where memory is missing.
[[nodiscard]] Error failed_read(const std::filesystem::path& path, int cause);

/// Names what a clone or a download leaves in place of a file, by its beginning: "a pointer of Git
/// LFS", "a page of HTML". Empty where it is neither.
[[nodiscard]] std::string stand_in(std::string_view beginning);

}  // namespace noisemark::reports
