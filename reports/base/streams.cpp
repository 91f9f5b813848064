#include "reports/base/streams.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <system_error>

#include "reports/base/error.h"
#include "reports/base/markdown.h"

namespace noisemark::reports {

void print_out(std::string_view text) {
  if (text.empty()) return;
  std::clearerr(stdout);  // an earlier failure is told already
  errno = 0;
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  const int cause = errno;
  throw Error(ExitCode::kCannotWrite,
              "standard output: cannot be written: " + std::generic_category().message(cause));
}

void say_on_stderr(std::string_view words) noexcept {
  std::string shown;
  try {
    for (size_t at = 0; at <= words.size();) {
      const std::string_view line = words.substr(at, words.find('\n', at) - at);
      if (at > 0) shown += "\n  ";
      shown += one_line(line);
      at += line.size() + 1;
    }
    words = shown;
  } catch (const std::bad_alloc&) {  // nothing is left to say it better
  }
  (void)std::fprintf(stderr, "noisemark: %.*s\n", static_cast<int>(words.size()), words.data());
}

int own_stream_at(const std::filesystem::path& path) noexcept {
  struct stat named {};
  if (stat(path.c_str(), &named) != 0) return -1;
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own {};
    const bool known = fstat(stream, &own) == 0;
    if (known && own.st_dev == named.st_dev && own.st_ino == named.st_ino) return stream;
  }
  return -1;
}

void leave(int exit_code) noexcept {
  (void)std::fflush(nullptr);
  std::_Exit(exit_code);
}

}  // namespace noisemark::reports
