#include "suite/environment/system.h"

#include <fstream>
#include <sstream>

namespace noisemark::suite {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

std::optional<std::string> read_system_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::string(trim(text.str()));
}

std::optional<std::string> field_of(std::string_view text, std::string_view key, char separator) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const size_t at = line.find(separator);
    if (at != std::string_view::npos && trim(line.substr(0, at)) == key) {
      return std::string(trim(line.substr(at + 1)));
    }
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return std::nullopt;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::istringstream stream{std::string(text)};
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace noisemark::suite
