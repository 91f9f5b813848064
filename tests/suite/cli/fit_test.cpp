// `noisemark fit`, as a user meets it.

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "reports/base/file.h"
#include "reports/result/json_io.h"
#include "reports/result/result.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

test::Finished fit(std::vector<std::string> arguments) {
  const std::vector<std::string> words = {"fit", "gmm16-ho", "--device", "cpu"};
  arguments.insert(arguments.begin(), words.begin(), words.end());
  return test::noisemark(arguments);
}

/// Returns the cell of the row `mode` in a column; empty without one.
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

TEST(Fit, under_a_budget_ends_at_the_batch_that_the_budget_does_not_admit) {
  const test::Finished refused = test::noisemark(
      {"plan", "gmm16-ho", "--device", "cpu", "--set", "train.batch=4", "--budget", "1KiB"});
  ASSERT_EQ(refused.code, 2) << refused.both();
  const std::string words = "the smallest that can be met is ";
  const size_t at = refused.err.find(words);
  ASSERT_NE(at, std::string::npos) << refused.err;
  const int64_t smallest = std::stoll(refused.err.substr(at + words.size()));
  // The memory is enough for batches a little larger than 4, and for none of a thousand.
  const std::string mode = "budget:" + std::to_string(smallest * 105 / 100);
  const test::Finished result = fit({"--memory", "64GiB", "--mode", mode});
  ASSERT_EQ(result.code, 0) << result.both();
  const std::string row = result.out.substr(result.out.find("| budget:"));
  EXPECT_NE(row.find("| below the smallest budget |"), std::string::npos) << result.out;
  const std::string batch = cell(result.out, row.substr(2, row.find(' ', 2) - 2), 3);
  ASSERT_FALSE(batch.empty()) << result.out;
  EXPECT_GE(std::stoi(batch), 4) << result.out;
}

TEST(Fit, under_a_budget_for_which_no_batch_is_small_enough_says_so) {
  const test::Finished result = fit({"--memory", "64GiB", "--mode", "budget:1KiB"});
  EXPECT_EQ(result.code, 1) << result.both();
  EXPECT_EQ(cell(result.out, "budget:1KiB", 3), "0") << result.out;
  EXPECT_EQ(cell(result.out, "budget:1KiB", 5), "below the smallest budget") << result.out;
}

TEST(Fit, says_that_not_even_one_image_fits) {
  const test::Finished result = fit({"--memory", "64KiB"});
  EXPECT_EQ(result.code, 1) << result.both();
  EXPECT_EQ(cell(result.out, "none", 3), "0") << result.out;
}

TEST(Fit, writes_the_table_to_a_file) {
  const test::TemporaryFolder folder;
  const test::Finished refused = fit({"--memory", "64KiB", "--out", folder.path().string()});
  EXPECT_EQ(refused.code, 2) << refused.both();
  EXPECT_EQ(refused.err.find("step"), std::string::npos) << "before any work: " << refused.err;
  const std::filesystem::path file = folder.path() / "fit.md";
  const test::Finished result = fit({"--memory", "64KiB", "--out", file.string()});
  EXPECT_EQ(result.code, 1) << result.both();
  EXPECT_EQ(result.out, file.string() + "\n");
  EXPECT_EQ(cell(reports::read_file(file), "none", 3), "0");
  const test::Finished again = fit({"--memory", "64KiB", "--out", file.string()});
  EXPECT_EQ(again.code, 1) << "its own table is replaced: " << again.both();
}

reports::Result run_within(const std::string& memory, const std::vector<std::string>& more) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  std::vector<std::string> words = {
      "run",   "gmm16-ho",       "--device", "cpu",           "--no-memory",  "--no-profile",
      "--set", "train.batch=2",  "--set",    "train.steps=1", "--set",        "eval.every=0",
      "--set", "eval.samples=8", "--out",    out.string(),    "--fit-memory", memory};
  words.insert(words.end(), more.begin(), more.end());
  const test::Finished run = test::noisemark(words);
  EXPECT_EQ(run.code, 0) << run.both();
  EXPECT_EQ(test::run_noisemark({"check", out.string()}).code, 0);
  EXPECT_NE(reports::read_file(out / "report.md").find("## Largest batch within "),
            std::string::npos);
  return reports::read_result(out / "result.json");
}

TEST(Fit, of_a_run_stands_in_its_result_and_report_and_is_that_of_the_command) {
  const reports::BatchFit found =
      run_within("24MiB", {"--mode", "echo", "--no-certificate"}).batch_fit;
  EXPECT_EQ(found.memory_bytes, 24 << 20);
  ASSERT_TRUE(found.peak_bytes && found.next_peak_bytes) << found.missing_reason;
  EXPECT_LE(*found.peak_bytes, 24 << 20);
  EXPECT_GT(*found.next_peak_bytes, 24 << 20);
  const test::Finished command = fit(
      {"--memory", "24MiB", "--mode", "echo", "--set", "eval.every=0", "--set", "eval.samples=8"});
  EXPECT_EQ(cell(command.out, "echo", 3), std::to_string(found.batch)) << command.out;
}

TEST(Fit, of_a_run_in_too_little_memory_says_so_and_fails_nothing) {
  const reports::BatchFit found = run_within("64KiB", {}).batch_fit;
  EXPECT_EQ(found.batch, 0);
  EXPECT_FALSE(found.peak_bytes);
  ASSERT_TRUE(found.next_peak_bytes);
  EXPECT_GT(*found.next_peak_bytes, 64 << 10);
}

TEST(Fit, refuses_what_is_no_size) {
  EXPECT_EQ(fit({}).code, 2);
  for (const char* size : {"2GB", "0", "much"}) {
    const test::Finished result = fit({"--memory", size});
    EXPECT_EQ(result.code, 2) << size;
    EXPECT_EQ(result.err, "noisemark: --memory: " + std::string(size) +
                              " (SIZE is a number with GiB, MiB or KiB behind it, such as "
                              "20.05MiB, or a whole number of bytes)\n");
    const test::Finished run = test::run_noisemark({"run", "gmm16-ho", "--fit-memory", size});
    EXPECT_EQ(run.code, 2) << size;
    EXPECT_EQ(run.err.find("noisemark: --fit-memory: " + std::string(size) + " (SIZE is "), 0U)
        << run.err;
  }
}

}  // namespace
}  // namespace noisemark::suite
