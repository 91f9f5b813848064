// `noisemark fit`, as a user meets it.

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

test::Finished fit(std::vector<std::string> arguments) {
  const std::vector<std::string> words = {"fit", "gmm16-ho", "--device", "cpu"};
  arguments.insert(arguments.begin(), words.begin(), words.end());
  return test::run_noisemark(arguments, {{"NOISEMARK_DATA", ""}, {"NOISEMARK_REQUIRE", ""}});
}

/// Of the row of `mode`, the cell of column `column`; empty without one.
std::string cell(const std::string& table, const std::string& mode, int column) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("| " + mode + " ") != 0) continue;
    std::istringstream cells(line);
    std::string text;
    for (int i = 0; i <= column + 1; ++i) std::getline(cells, text, '|');
    const size_t begin = text.find_first_not_of(' ');
    return begin == std::string::npos ? ""
                                      : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  }
  return "";
}

TEST(Fit, finds_larger_batches_under_modes_that_save_memory) {
  const test::Finished result = fit({"--memory", "24MiB", "--mode", "none", "--mode", "echo"});
  ASSERT_EQ(result.code, 0) << result.both();
  const std::string none = cell(result.out, "none", 3);
  const std::string echo = cell(result.out, "echo", 3);
  ASSERT_FALSE(none.empty() || echo.empty()) << result.out;
  EXPECT_LT(std::stoi(none), std::stoi(echo)) << result.out;
  for (const char* mode : {"none", "echo"}) {
    EXPECT_LE(std::stod(cell(result.out, mode, 4)), 24.0) << result.out;
    EXPECT_GT(std::stod(cell(result.out, mode, 5)), 24.0) << result.out;
  }
}

TEST(Fit, says_that_not_even_one_image_fits) {
  const test::Finished result = fit({"--memory", "64KiB"});
  EXPECT_EQ(result.code, 1) << result.both();
  EXPECT_EQ(cell(result.out, "none", 3), "0") << result.out;
}

TEST(Fit, refuses_what_is_no_size) {
  EXPECT_EQ(fit({}).code, 2);
  for (const char* size : {"2GB", "0", "much"}) {
    const test::Finished result = fit({"--memory", size});
    EXPECT_EQ(result.code, 2) << size;
    EXPECT_EQ(result.err.rfind("noisemark: --memory", 0), 0U) << result.err;
  }
}

}  // namespace
}  // namespace noisemark::suite
