#include "suite/cli/output_format.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "reports/error.h"
#include "reports/export/bencher.h"
#include "reports/export/ctest_lines.h"
#include "reports/export/github_benchmark.h"
#include "reports/file.h"

namespace noisemark::suite {
namespace {

/// What is accepted instead of `word`.
std::string accepted(const std::string& word, const std::vector<std::string>& words) {
  const auto any = [&](const char* name) {
    return std::find(words.begin(), words.end(), name) != words.end();
  };
  if (word == "gha" && any("gha-smaller") && any("gha-bigger")) {
    return "gha-smaller or gha-bigger: github-action-benchmark reads figures of one direction from "
           "a file";
  }
  return fmt::format("one of: {}", fmt::join(words, ", "));
}

}  // namespace

std::string one_of(const Arguments& arguments, std::string_view command, const std::string& flag,
                   const std::vector<std::string>& words) {
  const std::string word = arguments.has(flag) ? arguments.text(flag) : words.front();
  if (std::find(words.begin(), words.end(), word) != words.end()) return word;
  throw bad_input(std::string(command), "--" + flag, word, accepted(word, words));
}

const std::vector<std::string>& figure_formats() {
  static const std::vector<std::string> formats = {"gha-smaller", "gha-bigger", "bmf", "ctest"};
  return formats;
}

std::string figures_text(const std::string& format, const std::vector<reports::Figure>& figures) {
  using reports::Direction;
  if (format == "gha-smaller") return reports::github_benchmark_json(figures, Direction::kLower);
  if (format == "gha-bigger") return reports::github_benchmark_json(figures, Direction::kHigher);
  if (format == "bmf") return reports::bencher_json(figures);
  if (format == "ctest") return reports::ctest_lines(figures);
  throw std::logic_error("no format of figures: " + format);
}

std::string deliver(const Arguments& arguments, std::string text) {
  if (!arguments.has("out")) return text;
  reports::write_file_atomically(arguments.text("out"), text);
  return "";
}

}  // namespace noisemark::suite
