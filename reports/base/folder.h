#pragma once

#include <filesystem>
#include <string>

/// Folders that a process writes, and their names.
namespace noisemark::reports {

/// Spells a label as a part of a path that every common store of files takes: ':' and what else
/// some of them refuse becomes '-'.
[[nodiscard]] std::string portable_name(std::string label);

/// A new and empty folder among temporary files, which goes with the object and all that is in it.
class [[nodiscard]] ScratchFolder {
 public:
  /// `purpose` becomes a part of its name. Throws Error: bad input where there is no folder for
  /// temporary files; cannot write when it cannot be made there.
  explicit ScratchFolder(const std::string& purpose);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Holds a folder for the one process that writes into it, for as long as the object lives.
///
/// The lock lies on the folder itself and not in a file, so that nothing stays behind: the kernel
/// takes it back however the process ends. Readers need none. Where a file system knows no locks,
/// the process goes on without one and says so on standard error.
class [[nodiscard]] FolderLock {
 public:
  /// Makes the folder and its parents where they are missing. Throws Error: bad input when another
  /// process holds the folder or when a file has its name; cannot write when it cannot be made.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace noisemark::reports
