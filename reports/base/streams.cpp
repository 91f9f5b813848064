#include "reports/base/streams.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
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

namespace {

/// A word of Bash's: $'a\x1b[31m'.
std::string quoted_bytes(const std::string& word) {
  std::string text = "$'";
  for (const char letter : word) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte >= 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text +=
          letter == '\'' || letter == '\\' ? fmt::format("\\{}", letter) : std::string(1, letter);
    }
  }
  return text + "'";
}

}  // namespace

std::string quoted_shell_word(const std::string& word) {
  if (one_line(word) != word) return quoted_bytes(word);
  std::string text(1, '\'');
  for (const char letter : word) {
    if (letter == '\'') {
      text += "'\\''";
    } else {
      text += letter;
    }
  }
  text += '\'';
  return text;
}

std::string shell_word(const std::string& word) {
  const std::string safe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  const bool plain = !word.empty() && word.find_first_not_of(safe) == std::string::npos;
  return plain ? word : quoted_shell_word(word);
}

}  // namespace noisemark::reports
