#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/error.h"

/// Files in and out, with the project's errors.
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

/// Returns the bytes of a file. Throws as InputFile does.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

/// A whole file whose bytes are on the disk, but beside `path` still: putting it in place needs no
/// more room. It is removed when it was not.
class [[nodiscard]] StagedFile {
 public:
  /// Throws Error (cannot write) with the cause, a full disk for example.
  StagedFile(std::filesystem::path path, std::span<const std::string_view> pieces);
  StagedFile(const std::filesystem::path& path, std::string_view text)
      : StagedFile(path, std::span(&text, 1)) {}
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  /// `path` is whole at any moment: the old bytes or the new ones. Throws Error (cannot write).
  void put_in_place();

 private:
  void write_all(std::string_view text) const;
  void flush();

  std::filesystem::path path_;
  std::filesystem::path beside_;
  int descriptor_ = -1;
  bool in_place_ = false;
};

/// Writes a temporary file beside `path`, flushes it to the disk and renames it, so that `path` is
/// always whole: the old bytes or the new ones. A link stays, and the file behind it is written.
/// A device, a pipe or this process's own output is no regular file and never replaced: the bytes
/// go into it, and likewise into a file that its folder does not let go, as a mount point. Owner
/// and permissions stay, as far as this user may give them. Where the file has other names (hard
/// links), these keep the old bytes, so a linked copy of a folder stays as it was. Throws Error
/// (cannot write) with the cause, a full disk for example, and leaves no temporary file behind.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Writes several pieces likewise, one after the other, without joining them in memory.
void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::string_view> pieces);

/// Asks, before work whose answer is to be written there, whether a file that the user names can
/// be written. Throws Error: bad input for a folder, socket or block device, and «cannot write» if
/// its folder is not there or takes no file.
void require_writable_file(const std::filesystem::path& path);

/// Writes a file that the user names likewise, but into it where it has other names, as `>` of a
/// shell does: all of them are then the new bytes.
void write_named_file(const std::filesystem::path& path, std::span<const std::string_view> pieces);
inline void write_named_file(const std::filesystem::path& path, std::string_view text) {
  write_named_file(path, std::span(&text, 1));
}

/// Removes from `folder` the temporary files that write_file_atomically() of processes which are no
/// more left there: those of the files `names`, or with none of any file. A folder that is not
/// there holds none. Throws Error (cannot write).
void remove_leftovers(const std::filesystem::path& folder, std::span<const char* const> names = {});

/// Lists what lies in a folder, in no order. Throws Error (bad input), «PATH: cannot be read: ...».
[[nodiscard]] std::vector<std::filesystem::directory_entry> read_folder(
    const std::filesystem::path& folder);

/// The files of that name in `folder` and below it, in the order of their paths; links to folders
/// are not followed. Throws as read_folder().
[[nodiscard]] std::vector<std::filesystem::path> files_named(const std::filesystem::path& folder,
                                                             std::string_view name);

/// Returns whether a relative path names something below the folder that it is relative to.
[[nodiscard]] bool leads_below(const std::filesystem::path& path);

/// Makes the folder and its parents. Throws Error (cannot write).
void make_folder(const std::filesystem::path& path);

}  // namespace noisemark::reports
