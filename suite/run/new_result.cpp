#include "suite/run/new_result.h"

#include <fmt/core.h>

#include <filesystem>
#include <random>

#include "reports/utc_now.h"

namespace noisemark::suite {
namespace {

std::string random_id() {
  std::random_device entropy;
  return fmt::format("{:08x}{:08x}", entropy(), entropy());
}

std::string quoted(const std::string& word) {
  const std::string safe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  if (!word.empty() && word.find_first_not_of(safe) == std::string::npos) return word;
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

}  // namespace

std::string repeat_command(const std::vector<std::string>& argv, const std::string& data) {
  std::string line;
  bool names_data = data.empty();
  for (size_t i = 0; i < argv.size(); ++i) {
    if (argv[i] == "--out") {
      ++i;
      continue;
    }
    if (argv[i].starts_with("--out=") || argv[i] == "--force" || argv[i] == "--resume") continue;
    names_data |= argv[i] == "--data" || argv[i].starts_with("--data=");
    const std::string word = i == 0 ? std::filesystem::path(argv[0]).filename().string() : argv[i];
    if (!line.empty()) line += ' ';
    line += quoted(word);
  }
  if (!names_data) line += " --data " + quoted(data);
  return line;
}

reports::Result new_result(const std::vector<std::string>& argv, const std::string& data) {
  reports::Result result;
  result.run_id = random_id();
  result.created_utc = reports::utc_now();
  result.argv = argv;
  result.repeat_command = repeat_command(argv, data);
  return result;
}

}  // namespace noisemark::suite
