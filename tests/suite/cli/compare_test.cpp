// `noisemark compare`, by the real binary: exit codes and formats.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "reports/ab/calibration.h"
#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/compare/sides.h"
#include "reports/result/json_io.h"
#include "suite/cli/options.h"
#include "tests/reports/sample_result.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::Result;

/// Two folders of eight runs each, removed with the test.
class CompareCommand : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  /// Eight runs; images/s is `rate`, not quite the same in each, and off by `swing` of it forth and
  /// back.
  std::string side(const std::string& name, double rate, const std::string& mode = "none",
                   double swing = 0) {
    for (int i = 0; i < 8; ++i) {
      Result result = reports::test::full_result();
      result.run_id = fmt::format("{:x}{:015x}", name.size(), i);
      result.created_utc = fmt::format("2026-01-02T03:04:{:02}Z", i);
      result.identity.mode = mode;
      result.exit = {0, "pass", {}};
      result.metrics[0].value = rate * (1 + 0.001 * (i * 3 % 8) + (i % 2 == 0 ? swing : -swing));
      const fs::path run = folder_ / name / std::to_string(i);
      fs::create_directories(run);
      reports::write_result(run / "result.json", result);
    }
    return (folder_ / name).string();
  }

  static test::Finished compare(const std::vector<std::string>& words) {
    std::vector<std::string> arguments = {"compare"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    return test::run_noisemark(arguments, {{"NOISEMARK_REQUIRE", ""}});
  }

 private:
  fs::path folder_ = fs::path(::testing::TempDir()) /
                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(CompareCommand, leaves_with_the_code_of_its_verdict) {
  const std::string base = side("a", 10);
  EXPECT_EQ(compare({base, side("ab", 10)}).code, 0);
  EXPECT_EQ(compare({base, side("abc", 9)}).code, 1);
  EXPECT_EQ(compare({base, side("abcd", 10, "echo")}).code, 3);
  EXPECT_EQ(compare({base, "/nonexistent"}).code, 2);
  EXPECT_EQ(compare({"/nonexistent", base}).code, 5);
  const test::Finished same = compare({base, base});
  EXPECT_EQ(same.code, 2);
  EXPECT_NE(same.err.find("BASE and NEW are both"), std::string::npos) << same.err;
}

TEST_F(CompareCommand, warns_instead_of_failing_when_asked_to) {
  const std::string base = side("a", 10);
  const std::string candidate = side("ab", 10, "none", 0.1);
  EXPECT_EQ(compare({base, candidate}).code, 4);
  EXPECT_EQ(compare({base, candidate, "--inconclusive=fail"}).code, 4);
  const test::Finished warned = compare({base, candidate, "--inconclusive=warn"});
  EXPECT_EQ(warned.code, 0);
  EXPECT_EQ(warned.out.find("# INCONCLUSIVE: "), 0U) << warned.out;
}

TEST_F(CompareCommand, says_in_every_format_why_an_inconclusive_comparison_leaves_with_0) {
  const std::string base = side("a", 10);
  const std::string candidate = side("ab", 10, "none", 0.1);
  const std::string words = "inconclusive, let pass by --inconclusive=warn";
  for (const std::string& format : comparison_formats()) {
    const test::Finished warned =
        compare({base, candidate, "--inconclusive=warn", "--format", format});
    EXPECT_EQ(warned.code, 0) << format;
    EXPECT_EQ(warned.err, "noisemark: " + words + "\n") << format;
    // Bencher's form has no words, and of the figures that should be small none is inconclusive.
    const std::set<std::string> with_words = {"md", "json", "junit", "gha-bigger", "ctest"};
    if (with_words.contains(format)) {
      EXPECT_NE(warned.out.find(words), std::string::npos) << format << warned.out;
    }
    const test::Finished failed = compare({base, candidate, "--format", format});
    EXPECT_EQ(failed.code, 4) << format;
    EXPECT_EQ(failed.out.find("let pass by"), std::string::npos) << format;
    EXPECT_EQ(failed.err, "") << format;
  }
}

TEST_F(CompareCommand, refuses_too_few_pairs_and_does_not_soften_that) {
  const std::string base = side("a", 10) + "/0";
  const std::string candidate = side("ab", 10.5) + "/0";
  for (const char* word : {"--inconclusive=fail", "--inconclusive=warn"}) {
    const test::Finished few = compare({base, candidate, word});
    EXPECT_EQ(few.code, 2) << word;
    EXPECT_EQ(few.out.find("# TOO FEW PAIRS: "), 0U) << few.out;
  }
  const test::Finished exact = compare({base, candidate, "--exact"});
  EXPECT_EQ(exact.code, 0);
  EXPECT_NE(exact.out.find("Left out by --exact."), std::string::npos) << exact.out;
}

TEST_F(CompareCommand, takes_the_noise_floor_of_a_calibration_of_the_same_work_alone) {
  const std::string base = side("a", 10);
  const std::string candidate = side("ab", 9.5);
  EXPECT_EQ(compare({base, candidate}).code, 1);
  reports::Calibration calibration;
  calibration.identity = reports::same_work(reports::read_result(base + "/0/result.json"));
  for (int i = 0; i < 40; ++i) {
    calibration.units.push_back({"2026-01-02T03:04:05Z", "equivalent", false, 0.04, {0.04}, 0.025});
  }
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "calibration.json").string();
  reports::write_file_atomically(file, calibration_json(calibration));
  const test::Finished wide = compare({base, candidate, "--calibration", file});
  EXPECT_NE(wide.code, 1);
  EXPECT_NE(wide.out.find(reports::finished_page("8.2 %")), std::string::npos)
      << wide.out;  // the figure is twice expm1(0.04)
  calibration.identity["identity.threads"] = "77";
  reports::write_file_atomically(file, calibration_json(calibration));
  const test::Finished other = compare({base, candidate, "--calibration", file});
  EXPECT_EQ(other.code, 3);
  EXPECT_NE(other.err.find("calibrated for other work or another machine: identity.threads"),
            std::string::npos)
      << other.err;
}

TEST_F(CompareCommand, a_calibration_of_one_cell_is_for_that_cell_alone) {
  std::vector<std::string> sides;
  for (const auto& [name, rate] : {std::pair("a", 10.0), std::pair("ab", 9.5)}) {
    sides.push_back(side(name, rate));
    for (int i = 0; i < 8; ++i) {
      // The same runs again as another cell.
      reports::Result result =
          reports::read_result(fs::path(sides.back()) / std::to_string(i) / "result.json");
      result.identity.benchmark = "another";
      result.run_id[1] = 'f';
      const fs::path folder = fs::path(sides.back()) / ("another" + std::to_string(i));
      reports::make_folder(folder);
      reports::write_result(folder / "result.json", result);
    }
  }
  reports::Calibration calibration;
  calibration.identity = reports::same_work(reports::read_result(sides[0] + "/0/result.json"));
  for (int i = 0; i < 40; ++i) {
    calibration.units.push_back({"2026-01-02T03:04:05Z", "equivalent", false, 0.04, {0.04}, 0.025});
  }
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "calibration.json").string();
  reports::write_file_atomically(file, calibration_json(calibration));
  const test::Finished done = compare({sides[0], sides[1], "--calibration", file, "--format=json"});
  EXPECT_EQ(done.code, 1) << done.both();
  int rows = 0;
  const nlohmann::json comparison = nlohmann::json::parse(done.out);
  for (const auto& row : comparison.at("stochastic")) {
    if (row.at("metric") != "images_per_s") continue;
    ++rows;
    const bool other = row.at("cell").get<std::string>().find("another") == 0;
    EXPECT_NEAR(row.at("margin_frac").get<double>(), other ? 0.03 : 2 * std::expm1(0.04), 1e-12);
    EXPECT_EQ(row.at("verdict") == "REGRESSION", other);
  }
  EXPECT_EQ(rows, 2);
}

TEST_F(CompareCommand, speaks_markdown_and_json) {
  const std::string base = side("a", 10);
  const std::string candidate = side("ab", 9);
  const test::Finished markdown = compare({base, candidate});
  EXPECT_EQ(markdown.out.find("# REGRESSION: "), 0U) << markdown.out;
  EXPECT_EQ(markdown.out, compare({base, candidate, "--format", "md"}).out);
  const test::Finished text = compare({base, candidate, "--format=json"});
  EXPECT_EQ(text.code, 1);
  EXPECT_EQ(nlohmann::json::parse(text.out).at("verdict"), "REGRESSION");
}

TEST_F(CompareCommand, speaks_to_programs_and_into_a_file) {
  const std::string base = side("a", 10);
  const std::string candidate = side("ab", 9);
  const auto said = [&](const std::string& format) {
    const test::Finished text = compare({base, candidate, "--format", format});
    EXPECT_EQ(text.code, 1) << format;
    return text.out;
  };
  EXPECT_NE(said("junit").find("<failure type=\"REGRESSION\""), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(said("gha-smaller")).is_array());
  EXPECT_TRUE(nlohmann::json::parse(said("gha-bigger")).is_array());
  EXPECT_TRUE(nlohmann::json::parse(said("bmf")).is_object());
  EXPECT_EQ(said("ctest").find("<CTestMeasurement "), 0U);
  const std::string file = base + "/comparison.xml";
  const test::Finished written = compare({base, candidate, "--format", "junit", "--out", file});
  EXPECT_EQ(written.code, 1);
  EXPECT_EQ(written.out, file + "\n");
  EXPECT_EQ(reports::read_file(file), said("junit"));
}

TEST_F(CompareCommand, writes_a_page_that_marks_what_differs) {
  const std::string base = side("a", 10);
  const std::string file = base + "/comparison.html";
  const test::Finished written = compare({base, side("ab", 9), "--html", "--out", file});
  EXPECT_EQ(written.code, 1) << "that of the verdict";
  EXPECT_EQ(written.out, file + "\n");
  const std::string page = reports::read_file(file);
  EXPECT_NE(page.find("<title>REGRESSION: "), std::string::npos);
  EXPECT_NE(page.find("<tr class=\"differs\"><td>run_id</td>"), std::string::npos);
  EXPECT_EQ(compare({"a", "b", "--html", "--format", "json"}).err,
            "noisemark: compare: --html: with --format json (md, or no --html)\n");
}

TEST_F(CompareCommand, refuses_malformed_usage) {
  EXPECT_EQ(compare({}).err, "noisemark: compare: nothing given (BASE NEW)\n");
  EXPECT_EQ(compare({"a"}).err, "noisemark: compare: too few arguments (BASE NEW)\n");
  EXPECT_EQ(compare({"a", "b", "c"}).err, "noisemark: compare: c (2 arguments)\n");
  EXPECT_EQ(compare({"a", "b", "--format", "xlsx"}).err,
            fmt::format("noisemark: compare: --format: xlsx (one of: {})\n",
                        fmt::join(comparison_formats(), ", ")));
  EXPECT_EQ(compare({"a", "b", "--inconclusive", "maybe"}).code, 2);
  EXPECT_EQ(compare({"a", "b", "--inconclusive", "gha"}).err,
            "noisemark: compare: --inconclusive: gha (one of: fail, warn)\n");
}

TEST_F(CompareCommand, says_which_formats_a_word_begins) {
  const test::Finished refused = compare({"a", "b", "--format", "gha"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, "noisemark: compare: --format: gha (gha-smaller or gha-bigger)\n");
}

}  // namespace
}  // namespace noisemark::suite
