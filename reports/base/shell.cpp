#include "reports/base/shell.h"

#include <fmt/format.h>

#include <cstdint>

#include "reports/base/markdown.h"

namespace noisemark::reports {
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
