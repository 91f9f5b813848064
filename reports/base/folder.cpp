#include "reports/base/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/streams.h"

namespace noisemark::reports {
namespace {

std::string words_of(int cause) {
  return std::generic_category().message(cause);
}

int open_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  throw not_written(folder, errno);
}

// Another process may have removed the folder and made a new one of its name.
bool is_still(const std::filesystem::path& folder, int descriptor) {
  struct stat held {};
  struct stat named {};
  return fstat(descriptor, &held) == 0 && stat(folder.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

Error held_by_another(const std::filesystem::path& folder) {
  return bad_input(folder.string(), "", "another process is writing there",
                   "another folder, or this one when that process has ended");
}

// A process that was just killed may need a moment to let go.
bool is_locked(int descriptor) {
  constexpr int kTries = 5;
  constexpr std::chrono::milliseconds kPause{20};
  for (int tried = 0; flock(descriptor, LOCK_EX | LOCK_NB) != 0; ++tried) {
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    if (tried == kTries) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace

std::string portable_name(std::string label) {
  constexpr std::string_view kRefused = "\"*:<>?\\|";
  for (char& c : label) {
    const bool control = static_cast<unsigned char>(c) < 0x20;
    if (control || kRefused.find(c) != std::string_view::npos) c = '-';
  }
  return label;
}

ScratchFolder::ScratchFolder(const std::string& purpose) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) {
    throw bad_input("temporary files", "", error.message(),
                    "TMPDIR names a folder that is there, or is not set");
  }
  std::string pattern = (parent / ("noisemark-" + purpose + "-XXXXXX")).string();
  if (mkdtemp(pattern.data()) == nullptr) {
    throw Error(ExitCode::kCannotWrite, pattern + ": cannot be made: " + words_of(errno));
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

FolderLock::FolderLock(const std::filesystem::path& folder) {
  do {
    if (descriptor_ >= 0) close(descriptor_);
    std::error_code ignored;
    if (std::filesystem::exists(folder, ignored) &&
        !std::filesystem::is_directory(folder, ignored)) {
      const std::string kind = why_no_file(folder);
      throw bad_input(folder.string(), "", "is " + (kind.empty() ? "a file" : kind),
                      "a folder, or a free name");
    }
    make_folder(folder);
    descriptor_ = open_folder(folder);
    if (!is_locked(descriptor_)) {
      const int cause = errno;
      if (cause == EWOULDBLOCK || cause == EINTR) {
        close(descriptor_);
        throw held_by_another(folder);
      }
      say_on_stderr(folder.string() + ": cannot be locked (" + words_of(cause) +
                    "), so nothing keeps another process from writing there");
      return;
    }
  } while (!is_still(folder, descriptor_));
}

FolderLock::~FolderLock() {
  close(descriptor_);
}

}  // namespace noisemark::reports
