// The bytes of a rendered comparison, kept in golden/. After a wanted change, regenerate them:
//   NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_compare_golden_test
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "reports/compare/comparison_fields.h"
#include "tests/reports/golden_file.h"

namespace noisemark::reports {
namespace {

const std::filesystem::path kGolden = NOISEMARK_TEST_FOLDER "/golden";

void expect_golden(const std::string& name, const std::string& text) {
  test::expect_golden(kGolden / name, text);
}

const std::string kCell = "gmm16-ho@cpu, mode none, baseline plain, fp32, cpu";

StochasticRow rate_row() {
  StochasticRow row;
  row.cell = kCell;
  row.metric = "images_per_s";
  row.unit = "images/s";
  row.direction = Direction::kHigher;
  row.gated = true;
  row.pairs = 8;
  row.base = 23.5;
  row.candidate = 21.25;
  row.ratio = 0.904;
  row.ratio_ci95 = Interval{0.8975, 0.9125};
  row.p = 0.00390625;
  row.p_adjusted = 0.0078125;
  row.margin_frac = 0.03;
  row.noise_floor_frac = 0.0125;
  row.detectable_frac = 0.0175;
  row.verdict = CompareVerdict::kRegression;
  row.words = "worse by 10.6 %, at least 9.6 %";
  return row;
}

StochasticRow loss_row() {
  StochasticRow row = rate_row();
  row.metric = "val_loss";
  row.unit = "1";
  row.direction = Direction::kLower;
  row.base = 0.125;
  row.candidate = 0.126;
  row.ratio = 1.008;
  row.ratio_ci95 = Interval{0.99, 1.02};
  row.p = row.p_adjusted = 0.25;
  row.margin_frac = 0.01;
  row.noise_floor_frac = 0;
  row.pairs_needed = 21;
  row.verdict = CompareVerdict::kInconclusive;
  row.words = "the interval reaches across the margin";
  return row;
}

StochasticRow forward_row() {
  StochasticRow row = rate_row();
  row.metric = "forward_s";
  row.unit = "s";
  row.direction = Direction::kNeutral;
  row.gated = false;
  row.base = 0.25;
  row.candidate = 0.28125;
  row.ratio = 1.125;
  row.ratio_ci95 = Interval{1.1, 1.15};
  row.words = "";
  return row;
}

Comparison regression() {
  Comparison c;
  c.base = {"results/old",
            8,
            {"0123456789abcdef0123456789abcdef01234567"},
            {"noisemark run gmm16-ho@cpu --seed 1", "noisemark run gmm16-ho@cpu --seed 2",
             "noisemark run gmm16-ho@cpu --seed 3", "noisemark run gmm16-ho@cpu --seed 4"}};
  c.candidate = {"results/new", 9, {"89abcdef0123456789abcdef0123456789abcdef+"}};
  c.cells = 1;
  c.unpaired = {kCell + ": run 00000000000000aa of NEW, seed 9"};
  c.exact = {
      {kCell, "absolute gates", "", {}, {}, "passed", "passed", {}, ""},
      {kCell, "peak_bytes", "bytes", 5189796, 5189860, "", "", CompareVerdict::kRegression, "rose"},
      {kCell, "parameters", "count", 1001729, 1001729, "", "", {}, ""},
      {kCell, "peak: weights", "bytes", 4058916, 4058916, "", "", {}, ""},
      {kCell, "peak: encoded", "bytes", 0, 0, "", "", {}, ""},
      {kCell, "peak: workspace", "bytes", 1130880, 1130944, "", "", CompareVerdict::kRegression,
       "differs, and the peak did not fall"}};
  c.stochastic = {rate_row(), loss_row(), forward_row()};
  c.notes = {"NEW: 1 of 9 runs never became steady"};
  c.reasons = {kCell + ": peak_bytes: REGRESSION (rose)",
               kCell + ": images_per_s: REGRESSION (worse by 10.6 %, at least 9.6 %)"};
  c.verdict = CompareVerdict::kRegression;
  c.alpha = 0.05;
  c.resamples = 10000;
  return c;
}

Comparison incomparable() {
  Comparison c;
  c.base = {"a/report.md", 1, {"0123456789abcdef0123456789abcdef01234567"}};
  c.candidate = {"b", 2, {"0123456789abcdef0123456789abcdef01234567"}};
  c.cells = 1;
  c.differences = {{kCell, "identity.software.libtorch", "2.11.0", "2.12.0 | nightly"},
                   {kCell, "identity.threads", "2", ""}};
  c.only_candidate = {"gmm16@cpu, mode none, baseline plain, fp32, cpu"};
  c.reasons = {kCell + ": differs in identity.software.libtorch and 1 more"};
  c.verdict = CompareVerdict::kNotComparable;
  return c;
}

TEST(ComparisonGolden, a_regression_has_these_bytes) {
  expect_golden("regression.md", comparison_markdown(regression()));
  expect_golden("regression.json", comparison_json(regression()));
}

TEST(ComparisonGolden, what_is_not_comparable_has_these_bytes) {
  expect_golden("not_comparable.md", comparison_markdown(incomparable()));
}

TEST(ComparisonGolden, json_is_json_and_names_its_schema) {
  const auto json = nlohmann::json::parse(comparison_json(regression()));
  EXPECT_EQ(json.at("schema").at("name"), json::kComparisonDocument.name);
  EXPECT_EQ(json.at("exit_code"), 1);
  EXPECT_EQ(json.at("stochastic").at(2).at("verdict"), nullptr);
  EXPECT_EQ(json.at("stochastic").at(0).at("ratio"), 0.904);
}

TEST(ComparisonGolden, the_kept_schema_and_documentation_are_those_of_the_fields) {
  test::expect_published(NOISEMARK_TEST_FOLDER "/../../../reports/compare",
                         {{json::kComparisonDocument, json::shape_of<Comparison>()}});
}

TEST(ComparisonGolden, next_steps_follow_the_verdict) {
  Comparison c = regression();
  c.verdict = CompareVerdict::kInconclusive;
  EXPECT_EQ(next_step(c), "Make 13 more runs of each side in turns (21 pairs in all).\n");
  c.stochastic[1].pairs_needed.reset();
  EXPECT_EQ(next_step(c),
            "A difference lies so near its margin that thousands of pairs would be needed.\n");
  c.stochastic.clear();
  EXPECT_EQ(next_step(c), "Find out why a figure that should have no noise differs.\n");
  c.verdict = CompareVerdict::kNotWorse;
  EXPECT_EQ(next_step(c), "There is nothing to do.\n");
  c.verdict = CompareVerdict::kCalibrationNeeded;
  EXPECT_NE(next_step(c).find("passing runs"), std::string::npos);
}

TEST(ComparisonGolden, a_lone_cell_is_named_once_above_the_tables_and_several_in_each) {
  Comparison c = regression();
  EXPECT_NE(comparison_markdown(c).find("\nAll figures are of the cell gmm16-ho@cpu, "),
            std::string::npos);
  EXPECT_EQ(comparison_markdown(c).find("| cell "), std::string::npos);
  c.exact.front().cell = "gmm16@cpu";
  EXPECT_EQ(comparison_markdown(c).find("All figures are"), std::string::npos);
  EXPECT_NE(comparison_markdown(c).find("| cell "), std::string::npos);
}

TEST(ComparisonGolden, what_is_let_pass_says_so) {
  Comparison c = regression();
  c.exact.clear();
  c.reasons = {"nothing is proven"};
  c.inconclusive = Inconclusive::kWarns;
  EXPECT_EQ(exit_words(c), "The exit code is 1") << "nothing else is let pass";
  EXPECT_EQ(let_pass(c), "");
  c.verdict = CompareVerdict::kInconclusive;
  const std::string words = "inconclusive, let pass by --inconclusive=warn";
  EXPECT_EQ(let_pass(c), words);
  EXPECT_EQ(exit_code_of(c), ExitCode::kPass);
  EXPECT_NE(comparison_markdown(c).find("The exit code is 0: " + words + ".\n"), std::string::npos);
  const auto json = nlohmann::json::parse(comparison_json(c));
  EXPECT_EQ(json.at("exit_code"), 0);
  EXPECT_EQ(json.at("let_pass"), words);
  c.inconclusive = Inconclusive::kFails;
  EXPECT_EQ(exit_words(c), "The exit code is 4");
  for (const CompareVerdict other : {CompareVerdict::kUnstable, CompareVerdict::kTooFewPairs}) {
    EXPECT_EQ(verdict_words(other, Inconclusive::kWarns), verdict_name(other));
  }
}

TEST(ComparisonGolden, exit_codes_are_those_of_the_verdicts) {
  const std::vector<std::pair<CompareVerdict, int>> codes = {
      {CompareVerdict::kEquivalent, 0},     {CompareVerdict::kImproved, 0},
      {CompareVerdict::kNotWorse, 0},       {CompareVerdict::kSkipped, 77},
      {CompareVerdict::kInconclusive, 4},   {CompareVerdict::kUnstable, 4},
      {CompareVerdict::kTooFewPairs, 2},    {CompareVerdict::kCalibrationNeeded, 5},
      {CompareVerdict::kRecipeMismatch, 3}, {CompareVerdict::kNotComparable, 3},
      {CompareVerdict::kInvalidClocks, 3},  {CompareVerdict::kIncomplete, 3},
      {CompareVerdict::kQualityFail, 1},    {CompareVerdict::kRegression, 1}};
  for (const auto& [verdict, code] : codes) {
    EXPECT_EQ(static_cast<int>(exit_code_of(verdict)), code) << verdict_name(verdict);
  }
}

}  // namespace
}  // namespace noisemark::reports
