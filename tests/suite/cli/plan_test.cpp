// `noisemark plan`, as a user meets it.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

test::Finished plan(std::vector<std::string> arguments) {
  const std::vector<std::string> words = {"plan", "gmm16-ho", "--device",
                                          "cpu",  "--set",    "train.batch=8"};
  arguments.insert(arguments.begin(), words.begin(), words.end());
  return test::noisemark(arguments);
}

/// Returns the text behind `word`, up to the next blank.
std::string word_after(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  if (at == std::string::npos) return "";
  const size_t begin = at + word.size();
  return text.substr(begin, text.find(' ', begin) - begin);
}

TEST(Plan, names_the_treatment_of_every_segment_and_storage) {
  const test::Finished result = plan({"--budget", "64GiB"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* words :
       {"# Plan of gmm16-ho@cpu, budget:64GiB-plain-fp32\n\nThe plan keeps peak_bytes at ",
        "predicted peak_bytes", "planning took", "## Pareto curve", "by the budget", "## Blocks",
        "## Saved storages", "kept"}) {
    EXPECT_NE(result.out.find(words), std::string::npos) << words << '\n' << result.out;
  }
}

/// The value in the row that begins so; empty where there is no such row.
std::string cell_of_row(const std::string& text, const std::string& row) {
  const size_t at = text.find("| " + row + " ");
  if (at == std::string::npos) return "";
  const size_t cell = text.find('|', at + 2) + 1;
  return text.substr(cell, text.find('|', cell) - cell);
}

/// The number in it, -1 where it has none.
double number_in_row(const std::string& text, const std::string& row) {
  const std::string cell = cell_of_row(text, row);
  const size_t digits = cell.find_first_of("0123456789");
  return digits == std::string::npos ? -1 : std::stod(cell.substr(digits));
}

/// The time in it, of those that are printed to a hundredth of their unit.
double ns_in_row(const std::string& text, const std::string& row) {
  const std::string cell = cell_of_row(text, row);
  for (const auto& [unit, ns] : {std::pair{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}) {
    // A no-break space stands before it.
    if (cell.find(std::string("\u00A0") + unit) != std::string::npos) {
      return ns * number_in_row(text, row);
    }
  }
  return -1;
}

TEST(Plan, predicts_the_time_of_a_step_from_the_recorded_one_and_what_the_plan_adds) {
  const test::Finished tight = plan({"--budget", "1KiB"});
  const std::string smallest = word_after(tight.err, "the smallest that can be met is ");
  ASSERT_FALSE(smallest.empty()) << tight.err;
  const test::Finished result =
      plan({"--budget", std::to_string(std::stoll(smallest) * 105 / 100)});
  ASSERT_EQ(result.code, 0) << result.err;
  const double recorded_ms = number_in_row(result.out, "recorded step, which keeps everything");
  const double predicted_ms = number_in_row(result.out, "predicted step");
  EXPECT_GT(recorded_ms, 0) << result.out;
  EXPECT_GT(predicted_ms, recorded_ms) << "so small a budget has its price: " << result.out;
  const std::string row = result.out.substr(result.out.find("| predicted step "));
  const double percent = std::stod(row.substr(row.find('+') + 1));
  // Both times are printed to a microsecond, the share to a tenth of a percent.
  EXPECT_NEAR(percent, 100 * (predicted_ms / recorded_ms - 1), 0.06) << row.substr(0, 80);
  EXPECT_NE(result.out.find(" predicted step |"), std::string::npos) << "of the curve's points";

  const double added_ns = ns_in_row(result.out, "predicted to be added to a step");
  const double bound_ns = ns_in_row(result.out, "least time that any plan adds (lower bound)");
  EXPECT_GT(bound_ns, 0) << result.out;
  // A time is printed to a hundredth of a unit of which it is one at least: to half a percent.
  EXPECT_LE(bound_ns, 1.01 * added_ns) << "a bound from below: " << result.out;
  const double gap = number_in_row(result.out, "added above that bound") / 100;
  EXPECT_NEAR(gap, added_ns / bound_ns - 1, 0.011 * (1 + gap)) << result.out;
}

TEST(Plan, of_a_budget_that_cannot_be_met_names_the_smallest_that_can_and_that_works) {
  const test::Finished tight = plan({"--budget", "1KiB"});
  EXPECT_EQ(tight.code, 2);
  const std::string smallest = word_after(tight.err, "the smallest that can be met is ");
  ASSERT_FALSE(smallest.empty()) << tight.err;
  const std::string enough = std::to_string(std::stoll(smallest) * 105 / 100);
  const test::Finished result = plan({"--budget", enough});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("recomputed"), std::string::npos) << result.out;
}

/// The first number behind `words`, with its unit.
std::string size_after(const std::string& text, const std::string& words) {
  const std::string rest = text.substr(std::min(text.find(words) + words.size(), text.size()));
  const size_t begin = rest.find_first_of("0123456789");
  return begin == std::string::npos
             ? ""
             : rest.substr(begin, rest.find_first_not_of("0123456789.KMGiB", begin) - begin);
}

TEST(Plan, names_sizes_that_can_be_typed_back) {
  const test::Finished roomy = plan({"--budget", "64GiB"});
  ASSERT_EQ(roomy.code, 0) << roomy.err;
  const std::string smallest = size_after(roomy.out, "smallest budget that can be met");
  EXPECT_NE(smallest.find("iB"), std::string::npos) << smallest;
  EXPECT_EQ(plan({"--budget", smallest}).code, 0) << smallest;
  const test::Finished tight = plan({"--budget", "1KiB"});
  const std::string named = size_after(tight.err, " bytes, ");
  EXPECT_EQ(plan({"--budget", named}).code, 0) << named << '\n' << tight.err;
}

TEST(Plan, of_a_budget_with_an_error_says_what_was_measured) {
  const test::Finished result = plan({"--budget", "saved=64GiB,error=0.02"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* words :
       {"budget:saved=64GiB,error=0.02", "bound of the gradient's relative error",
        "measured on the recorded step", "gradient error, expected"}) {
    EXPECT_NE(result.out.find(words), std::string::npos) << words << '\n' << result.out;
  }
}

TEST(Plan, draws_the_pareto_curve_where_it_is_told_to) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "plan_curve";
  std::filesystem::remove_all(folder);
  const test::Finished result = plan({"--budget", "saved=64GiB", "--out", folder.string()});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "plots" / "pareto.dat"));
  const bool drawn = std::filesystem::exists(folder / "plots" / "pareto.svg");
  EXPECT_NE(drawn, result.out.find("No plot: ") != std::string::npos) << result.out;
}

TEST(Plan, of_a_training_that_diverges_fails_and_names_the_first_non_finite_tensor) {
  const test::Finished result =
      plan({"--budget", "64GiB", "--set", "optimizer.lr=1e30", "--set", "optimizer.clip_norm=0"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_EQ(result.err.rfind("noisemark: step 1: first non-finite tensor: ", 0), 0U) << result.err;
}

TEST(Plan, refuses_what_is_no_budget) {
  EXPECT_EQ(plan({}).code, 2);
  for (const char* budget : {"2GB", "0", "-1MiB", "much", "1GiB,error=0", "1GiB,error=x", "1.5"}) {
    const test::Finished result = plan({"--budget", budget});
    EXPECT_EQ(result.code, 2) << budget;
    EXPECT_EQ(result.err, "noisemark: --budget: " + std::string(budget) +
                              " (SIZE or saved=SIZE, behind it ,error=E where rounding is "
                              "allowed, 0 < E <= 1, and ,strict where a step over the budget is an "
                              "error; SIZE is a number with GiB, MiB or KiB behind "
                              "it, such as 20.05MiB, or a whole number of bytes)\n");
  }
}

TEST(Plan, of_a_run_whose_budget_cannot_be_met_names_the_smallest_that_can) {
  const test::TemporaryFolder folder;
  const test::Finished result = test::run_noisemark(
      {"run", "gmm16-ho", "--device", "cpu", "--mode", "budget:1KiB", "--no-memory", "--no-profile",
       "--set", "train.batch=8", "--set", "train.steps=6", "--set", "eval.every=0", "--out",
       (folder.path() / "run").string()});
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("the smallest budget that can is "), std::string::npos) << result.err;
}

}  // namespace
}  // namespace noisemark::suite
