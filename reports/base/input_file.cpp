#include "reports/base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "reports/base/system_error.h"

namespace noisemark::reports {
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
