#include "reports/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/streams.h"

namespace noisemark::reports {
namespace {

constexpr std::string_view kTemporary = ".tmp-";  // the number of the process follows

// Returns the file that `path` is the temporary file of, and the process that wrote it; {} for
// none.
struct TemporaryName {
  std::string of;
  pid_t process = 0;
};

TemporaryName temporary_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const size_t at = name.rfind(kTemporary);
  if (at == std::string::npos) return {};
  TemporaryName parts{name.substr(0, at)};
  const char* end = name.data() + name.size();
  const auto [stop, error] =
      std::from_chars(name.data() + at + kTemporary.size(), end, parts.process);
  if (error != std::errc{} || stop != end || parts.process <= 0) return {};
  return parts;
}

// This process has written nothing yet where it looks for leftovers: in a container every run has
// the same number.
bool is_no_more(pid_t process) {
  return process == getpid() || (kill(process, 0) != 0 && errno == ESRCH);
}

// Makes the rename itself survive a power cut. Not every file system can; that is no error.
void sync_folder(const std::filesystem::path& folder) {
  const std::string name = folder.empty() ? "." : folder.string();
  const int descriptor = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)fsync(descriptor);
  (void)close(descriptor);
}

void write_to(int descriptor, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw not_written(path, errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// A pipe without a reader would be waited for without an end and without a word; one whose reader
// starts beside this program has it in a moment.
int open_through(const std::filesystem::path& path) {
  constexpr int kPauses = 200;
  constexpr useconds_t kPause_us = 10'000;
  for (int pause = 0;; ++pause) {
    const int descriptor = open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) {
      (void)fcntl(descriptor, F_SETFL, O_WRONLY);
      return descriptor;
    }
    std::error_code unknown;
    const int cause = errno;
    if (cause == ENXIO && std::filesystem::is_socket(path, unknown)) {
      throw bad_input(path.string(), "cannot be written", "a socket", "a file, a pipe or a device");
    }
    if (cause != ENXIO || !std::filesystem::is_fifo(path, unknown)) throw not_written(path, cause);
    if (pause == kPauses) {
      throw Error(ExitCode::kCannotWrite,
                  path.string() + ": cannot be written: a pipe that no program reads");
    }
    usleep(kPause_us);
  }
}

// A device or a pipe takes bytes and cannot be replaced; it is no file that could be left half
// written either.
void write_through(const std::filesystem::path& path, int stream,
                   std::span<const std::string_view> pieces) {
  const int descriptor = stream >= 0 ? fcntl(stream, F_DUPFD_CLOEXEC, 0) : open_through(path);
  if (descriptor < 0) throw not_written(path, errno);
  try {
    for (const std::string_view piece : pieces) write_to(descriptor, piece, path);
  } catch (...) {
    close(descriptor);
    throw;
  }
  if (close(descriptor) != 0) throw not_written(path, errno);
}

// Writes over the bytes of a file before it gives up what is left of them: a full disk is met while
// as much as can be is still there.
void write_over(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) throw not_written(path, errno);
  try {
    for (const std::string_view piece : pieces) write_to(descriptor, piece, path);
    const off_t size = lseek(descriptor, 0, SEEK_CUR);
    if (ftruncate(descriptor, size) != 0 || fsync(descriptor) != 0) throw not_written(path, errno);
  } catch (...) {
    close(descriptor);
    throw;
  }
  if (close(descriptor) != 0) throw not_written(path, errno);
}

// Returns a name beside `path`, cut off where the file system would take no longer one.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  const std::string ending = std::string(kTemporary) + std::to_string(getpid());
  const std::filesystem::path folder = path.parent_path();
  const long longest = pathconf(folder.empty() ? "." : folder.c_str(), _PC_NAME_MAX);
  std::string name = path.filename().string();
  const size_t room = longest > 0 ? static_cast<size_t>(longest) : NAME_MAX;
  if (name.size() <= room) name.resize(std::min(name.size(), room - ending.size()));
  return folder / (name + ending);
}

bool is_regular(const std::filesystem::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// Returns whether the folder takes no new file and this one may be written, like one that a
// container is given alone.
bool is_all_that_may_be_written(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.parent_path();
  return eaccess(folder.empty() ? "." : folder.c_str(), W_OK) != 0 && is_regular(path) &&
         eaccess(path.c_str(), W_OK) == 0;
}

// A mount point, or another user's file in a folder for all, cannot be replaced but written.
bool is_kept_by_its_folder(const std::filesystem::path& path, int cause) {
  const bool kept = cause == EBUSY || cause == EPERM || cause == EACCES;
  return kept && is_regular(path) && eaccess(path.c_str(), W_OK) == 0;
}

// The file behind links, which stay. One that leads nowhere yet is made where it leads.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // Linux follows no more
  std::error_code error;
  for (int followed = 0; std::filesystem::is_symlink(path, error); ++followed) {
    if (followed == kMostLinks) throw not_written(path, ELOOP);
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) throw not_written(path, error.value());
    path = path.parent_path() / target;  // an absolute one replaces what is before it
  }
  return path;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::string text;
  InputFile(path).read_rest([&](std::string_view block) { text += block; });
  return text;
}

StagedFile::StagedFile(std::filesystem::path path, std::span<const std::string_view> pieces)
    : path_(std::move(path)),
      beside_(temporary_beside(path_)),
      descriptor_(open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw not_written(path_, errno);
  struct stat before {};
  // The file keeps the owner and the permissions of the one that it replaces, as far as this user
  // may give them away. Some file systems know neither.
  if (stat(path_.c_str(), &before) == 0 && S_ISREG(before.st_mode)) {
    (void)!fchown(descriptor_, static_cast<uid_t>(-1), before.st_gid);
    (void)!fchown(descriptor_, before.st_uid, static_cast<gid_t>(-1));
    (void)!fchmod(descriptor_, before.st_mode & 0777U);
  }
  try {
    for (const std::string_view piece : pieces) write_all(piece);
    flush();
  } catch (...) {
    if (descriptor_ >= 0) close(descriptor_);
    unlink(beside_.c_str());
    throw;
  }
}

StagedFile::~StagedFile() {
  if (!in_place_) unlink(beside_.c_str());
}

void StagedFile::write_all(std::string_view text) const {
  write_to(descriptor_, text, path_);
}

// A delayed write error (network file systems, quotas) shows up in fsync or close, not in write.
void StagedFile::flush() {
  if (fsync(descriptor_) != 0) throw not_written(path_, errno);
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) throw not_written(path_, errno);
}

void StagedFile::put_in_place() {
  if (rename(beside_.c_str(), path_.c_str()) != 0) {
    if (!is_kept_by_its_folder(path_, errno)) throw not_written(path_, errno);
    const std::string text = read_file(beside_);
    const std::string_view piece = text;
    write_over(path_, std::span(&piece, 1));
    return;
  }
  in_place_ = true;
  sync_folder(path_.parent_path());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, std::span(&text, 1));
}

void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::string_view> pieces) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    const int stream = own_stream_at(path);
    const bool replaceable = S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
    if (!replaceable || (stream >= 0 && S_ISREG(status.st_mode))) {
      return write_through(path, stream, pieces);
    }
  }
  const std::filesystem::path file = behind_links(path);
  if (is_all_that_may_be_written(file)) return write_over(file, pieces);
  StagedFile(file, pieces).put_in_place();
}

void require_writable_file(const std::filesystem::path& path) {
  struct stat status {};
  const int cause = stat(path.c_str(), &status) == 0 ? 0 : errno;
  const bool there = cause == 0;
  if (!path.has_filename() || (there && S_ISDIR(status.st_mode))) {
    throw bad_input(path.string(), "", "a folder", "a file, there or not");
  }
  if (there && (S_ISSOCK(status.st_mode) || S_ISBLK(status.st_mode))) {
    const char* what = S_ISSOCK(status.st_mode) ? "a socket" : "a block device";
    throw bad_input(path.string(), "", fmt::format("cannot be written: {}", what),
                    "a file, a pipe or a character device");
  }
  if (!there && cause != ENOENT) throw not_written(path, cause);
  std::filesystem::path folder = behind_links(path).parent_path();
  if (folder.empty()) folder = ".";
  if (eaccess(folder.c_str(), W_OK | X_OK) == 0) return;
  const int refusal = errno;
  if (there && (!S_ISREG(status.st_mode) || eaccess(path.c_str(), W_OK) == 0)) return;
  throw not_written(path, refusal);
}

void write_named_file(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  require_writable_file(path);
  struct stat status {};
  const bool there = stat(path.c_str(), &status) == 0;
  const bool has_other_names =
      there && S_ISREG(status.st_mode) && status.st_nlink > 1 && own_stream_at(path) < 0;
  if (has_other_names) return write_over(path, pieces);
  write_file_atomically(path, pieces);
}

void remove_leftovers(const std::filesystem::path& folder, std::span<const char* const> names) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return;
  std::vector<std::filesystem::path> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const TemporaryName name = temporary_name(entry.path());
    const bool ours =
        names.empty() || std::find(names.begin(), names.end(), name.of) != names.end();
    if (!name.of.empty() && ours && is_no_more(name.process)) leftovers.push_back(entry.path());
  }
  for (const auto& path : leftovers) {
    if (!std::filesystem::remove(path, error) && error) throw not_written(path, error.value());
  }
}

std::vector<std::filesystem::directory_entry> read_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::directory_entry> entries;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    entries.push_back(*at);
  }
  if (error) throw bad_input(folder.string(), "", "cannot be read: " + error.message(), "");
  return entries;
}

std::vector<std::filesystem::path> files_named(const std::filesystem::path& folder,
                                               std::string_view name) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::directory_entry& entry : read_folder(folder)) {
    std::error_code unknown;  // it is the same as no folder
    if (entry.path().filename() == name) files.push_back(entry.path());
    if (entry.is_symlink(unknown) || !entry.is_directory(unknown)) continue;
    const std::vector<std::filesystem::path> below = files_named(entry.path(), name);
    files.insert(files.end(), below.begin(), below.end());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool leads_below(const std::filesystem::path& path) {
  return !path.empty() && path.is_relative() &&
         std::find(path.begin(), path.end(), "..") == path.end();
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  std::error_code unknown;
  if (!error && !std::filesystem::is_directory(path, unknown)) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error == std::errc::file_exists && std::filesystem::is_symlink(path, unknown)) {
    throw bad_input(path.string(), "", "is a link to nothing", "a folder, or a free name");
  }
  if (error) throw not_written(path, error.value());
}

namespace {

const char* kind_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "a folder";
  if (S_ISFIFO(status.st_mode)) return "a pipe";
  return S_ISSOCK(status.st_mode) ? "a socket" : "a device";
}

Error cannot_read(const std::filesystem::path& path, int cause) {
  const std::error_code code(cause, std::generic_category());
  return error_of(std::filesystem::filesystem_error("cannot read", path, code));
}

}  // namespace

std::string why_no_file(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return S_ISREG(status.st_mode) ? "" : kind_of(status);
  const int cause = errno;
  if (cause != ENOENT) throw cannot_read(path, cause);
  const bool is_link = lstat(path.c_str(), &status) == 0;
  return std::string(is_link ? kLinkToNothing : kNotThere);
}

bool is_named(const std::filesystem::path& path) {
  return std::filesystem::exists(std::filesystem::symlink_status(path));
}

Error failed_read(const std::filesystem::path& path, int cause) {
  const Error error = cannot_read(path, cause);
  if (error.code() == ExitCode::kOutOfMemory) return error;
  return {ExitCode::kCannotRead, error.what()};
}

std::string stand_in(std::string_view beginning) {
  if (beginning.starts_with("version https://git-lfs")) return "a pointer of Git LFS";
  const bool page = beginning.starts_with("<!DOCTYPE") || beginning.starts_with("<!doctype") ||
                    beginning.starts_with("<html");
  return page ? "a page of HTML" : "";
}

InputFile::InputFile(std::filesystem::path path, const std::string& accepted)
    : path_(std::move(path)) {
  const std::string why = why_no_file(path_);
  if (why == kNotThere) throw cannot_read(path_, ENOENT);
  if (!why.empty()) throw bad_input(path_.string(), "cannot be read", why, accepted);
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw cannot_read(path_, errno);
}

InputFile::~InputFile() {
  close(descriptor_);
}

uint64_t InputFile::size() {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) throw failed_read(path_, errno);
  if (status.st_size > 0) return static_cast<uint64_t>(status.st_size);
  // Files of /proc have no size, and may yet hold something or fail.
  char first = 0;
  if (read_some(&first, 1) == 0) return 0;
  throw bad_input(path_.string(), "", "a file whose size is not known", "a copy of it on a disk");
}

uint64_t InputFile::read_some(char* to, uint64_t count) {
  constexpr uint64_t kLargestRead = uint64_t{1} << 30U;  // a call reads less than 2 GiB
  uint64_t done = 0;
  while (done < count) {
    const ssize_t got = ::read(descriptor_, to + done, std::min(count - done, kLargestRead));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failed_read(path_, errno);
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  return done;
}

void InputFile::read(char* to, uint64_t count) {
  const uint64_t got = read_some(to, count);
  if (got == count) return;
  throw bad_input(path_.string(), "", "truncated while being read",
                  fmt::format("{} bytes more", count - got));
}

void InputFile::read_rest(const std::function<void(std::string_view)>& take) {
  std::vector<char> block(size_t{1} << 18U);
  while (const uint64_t count = read_some(block.data(), block.size())) {
    take(std::string_view(block.data(), count));
  }
}

}  // namespace noisemark::reports
