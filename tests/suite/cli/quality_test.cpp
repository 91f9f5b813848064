// `noisemark quality`, by the real binary: exit codes, formats and files.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reports/base/file.h"
#include "reports/render/run_folder.h"
#include "reports/result/json_io.h"
#include "tests/reports/seeds/seeds.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::test::losses_of_none;
using reports::test::seeds_of;
using reports::test::worse_by;

/// Folders of three seeds of none and of another mode, removed with the test.
class QualityCommand : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string keep(const std::string& name, double frac, double spread,
                   const reports::test::ChangeSeed& change = {}) {
    const auto none = losses_of_none(3);
    reports::Suite suite;
    suite.title = "ho-cifar10@cpu";
    for (const auto& runs :
         {seeds_of("none", none), seeds_of("dpr8", worse_by(frac, spread, none), change)}) {
      for (const reports::NamedResult& run : runs) {
        suite.names.push_back(run.name);
        reports::make_folder(folder_ / name / run.name);
        reports::write_result(folder_ / name / run.name / "result.json", run.result);
      }
    }
    reports::write_suite(folder_ / name, suite);
    return (folder_ / name).string();
  }

  static test::Finished quality(const std::vector<std::string>& words) {
    std::vector<std::string> arguments = {"quality"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    return test::run_noisemark(arguments, {{"NOISEMARK_REQUIRE", ""}});
  }

  fs::path folder_ = fs::path(::testing::TempDir()) /
                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(QualityCommand, leaves_with_the_code_of_its_verdict) {
  const test::Finished pass = quality({keep("pass", 0.001, 0.001)});
  EXPECT_EQ(pass.code, 0) << pass.both();
  EXPECT_EQ(pass.out.find("# PASS: quality of ho-cifar10@cpu"), 0U) << pass.out;
  EXPECT_EQ(quality({keep("fail", 0.05, 0.003)}).code, 1);
  EXPECT_EQ(quality({keep("noise", 0.004, 0.02)}).code, 4);
  EXPECT_EQ(quality({keep("other", 0.001, 0.001,
                          [](reports::Result& result, uint64_t) { result.identity.threads = 7; })})
                .code,
            3);
  EXPECT_EQ(quality({"/nonexistent"}).code, 2);
  EXPECT_EQ(quality({(folder_ / "pass" / "none-seed0").string()}).code, 2) << "nothing to judge";
  EXPECT_EQ(quality({(folder_ / "pass" / "dpr8-seed0").string()}).code, 5)
      << "nothing to judge it by";
}

TEST_F(QualityCommand, warns_instead_of_failing_when_asked_to) {
  const std::string noise = keep("noise", 0.004, 0.02);
  EXPECT_EQ(quality({noise, "--inconclusive=fail"}).code, 4);
  const test::Finished warned = quality({noise, "--inconclusive=warn"});
  EXPECT_EQ(warned.code, 0);
  EXPECT_EQ(warned.out.find("# INCONCLUSIVE"), 0U) << warned.out;
  EXPECT_NE(warned.out.find("let pass"), std::string::npos) << warned.out;
  EXPECT_EQ(quality({keep("fail", 0.05, 0.003), "--inconclusive=warn"}).code, 1);
}

TEST_F(QualityCommand, takes_margins_ranges_and_formats) {
  const std::string runs = keep("runs", 0.02, 0.002);
  EXPECT_EQ(quality({runs}).code, 1);
  EXPECT_EQ(quality({runs, "--gate", "val_loss=0.05"}).code, 0);
  EXPECT_EQ(quality({runs, "--gate", "val_loss=0.05", "--gate", "time_to_quality_s=0.01"}).code, 1);
  const test::Finished json = quality({runs, "--format", "json", "--range", "val_loss=0.01:1"});
  EXPECT_EQ(json.code, 1);
  const auto study = nlohmann::json::parse(json.out);
  EXPECT_EQ(study.at("verdict"), "FAIL");
  EXPECT_EQ(study.at("ranges").size(), 2U);
}

TEST_F(QualityCommand, writes_files_that_check_and_report_know) {
  const std::string runs = keep("runs", 0.001, 0.001);
  const test::Finished written = quality({runs, "--out", runs});
  EXPECT_EQ(written.code, 0) << written.both();
  EXPECT_EQ(written.out, "quality: PASS. Gates: 1 PASS\n" + runs + "/quality.md\n");
  const std::string page = reports::read_file(fs::path(runs) / "quality.md");
  EXPECT_EQ(page, quality({runs}).out);
  const auto finds_it = [&] {
    return test::run_noisemark({"check", runs}).out.find("quality.md: quality: ") !=
           std::string::npos;
  };
  EXPECT_FALSE(finds_it());
  reports::write_file_atomically(fs::path(runs) / "quality.md", page + "All is well.\n");
  EXPECT_TRUE(finds_it());
  EXPECT_EQ(test::run_noisemark({"report", runs}).code, 0);
  EXPECT_EQ(reports::read_file(fs::path(runs) / "quality.md"), page);
}

TEST_F(QualityCommand, of_runs_elsewhere_writes_a_folder_that_check_takes) {
  const std::string runs = keep("runs", 0.001, 0.001);
  const std::string out = runs + "-study";
  EXPECT_EQ(quality({runs, "--out", out}).code, 0);
  EXPECT_EQ(quality({runs, "--out", out}).code, 0) << "it knows what it wrote";
  const test::Finished whole = test::run_noisemark({"check", out});
  EXPECT_EQ(whole.code, 0) << whole.both();
  EXPECT_EQ(whole.out, out + ": nothing is wrong\n");
  reports::write_file_atomically(fs::path(out) / "quality.md", "# PASS\n");
  const test::Finished changed = test::run_noisemark({"check", out});
  EXPECT_EQ(changed.code, 1) << changed.both();
  EXPECT_NE(changed.out.find("quality.md: quality: "), std::string::npos) << changed.out;
  const std::string above = fs::path(out).parent_path().string();
  EXPECT_NE(test::run_noisemark({"check", above}).out.find("-study/quality.md: quality: "),
            std::string::npos)
      << "from above too";
}

TEST_F(QualityCommand, keeps_what_was_asked_for_from_the_default_gates_of_a_report) {
  const std::string runs = keep("runs", 0.02, 0.002);
  EXPECT_EQ(quality({runs, "--gate", "val_loss=0.05", "--out", runs}).code, 0);
  const std::string page = reports::read_file(fs::path(runs) / "quality.md");
  EXPECT_EQ(page.find("# PASS"), 0U) << page;
  EXPECT_EQ(test::run_noisemark({"report", runs}).code, 0);
  EXPECT_EQ(reports::read_file(fs::path(runs) / "quality.md"), page);
}

TEST_F(QualityCommand, holds_to_the_looks_that_were_declared) {
  const std::string runs = keep("runs", 0.001, 0.001);
  EXPECT_EQ(quality({runs, "--looks", "1", "--out", runs}).code, 0);
  EXPECT_NE(quality({runs}).out.find("look 1 of 1 declared"), std::string::npos);
  EXPECT_EQ(quality({runs, "--looks", "2"}).err,
            "noisemark: quality: --looks: 2 (1, as was declared before the first look: " + runs +
                "/quality.json)\n");
  EXPECT_EQ(quality({runs, "--looks", "11"}).err, "noisemark: quality: --looks: 11 (1 to 10)\n");
}

/// These are runs whose looks no suite keeps.
TEST_F(QualityCommand, says_when_a_look_is_not_kept_and_not_when_it_is) {
  const std::string runs = keep("runs", 0.001, 0.001);
  const std::string words = "this look is not kept, and seeds that are added";
  const test::Finished forgotten = quality({runs});
  EXPECT_EQ(forgotten.err.find("noisemark: quality: " + words), 0U) << forgotten.err;
  EXPECT_NE(forgotten.out.find("\nNo quality.json: " + words), std::string::npos) << forgotten.out;
  const test::Finished json = quality({runs, "--format", "json"});
  EXPECT_NE(json.err.find(words), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(json.out));
  const test::Finished kept = quality({runs, "--out", runs});
  EXPECT_EQ(kept.both().find(words), std::string::npos) << kept.both();
  const test::Finished again = quality({runs});
  EXPECT_EQ(again.both().find(words), std::string::npos) << again.both();
}

TEST_F(QualityCommand, writes_over_nothing_that_is_of_other_runs) {
  const std::string runs = keep("runs", 0.001, 0.001);
  const std::string other = keep("other", 0.001, 0.001);
  for (const auto& entry : fs::directory_iterator(other)) {
    const fs::path file = entry.path() / "result.json";
    if (!fs::exists(file)) continue;
    reports::Result result = reports::read_result(file);
    std::reverse(result.run_id.begin(), result.run_id.end());
    reports::write_result(file, result);
  }
  const auto refused = [](const test::Finished& finished) {
    EXPECT_EQ(finished.code, 2) << finished.both();
    return finished.err;
  };
  // There `report` would write it anew, of the suite's runs alone.
  EXPECT_NE(refused(quality({other, "--out", runs})).find("a folder that is not a suite's"),
            std::string::npos);
  EXPECT_NE(refused(quality({runs, other, "--out", runs})).find("a folder that is not a suite's"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(fs::path(runs) / "quality.json"));
  EXPECT_EQ(quality({runs, "--out", runs + "/"}).code, 0) << "its own";
  const std::string out = (folder_ / "out").string();
  EXPECT_EQ(quality({runs, "--out", out}).code, 0);
  const std::string page = reports::read_file(fs::path(out) / "quality.md");
  EXPECT_NE(refused(quality({other, "--out", out})).find("keeps the looks at other runs"),
            std::string::npos);
  EXPECT_EQ(reports::read_file(fs::path(out) / "quality.md"), page);
  EXPECT_EQ(quality({runs, "--gate", "val_loss=0.02", "--out", out}).code, 0) << "the same runs";
}

TEST_F(QualityCommand, refuses_malformed_usage) {
  const std::string runs = keep("runs", 0.001, 0.001);
  EXPECT_EQ(quality({}).err, "noisemark: quality: nothing given (DIR...)\n");
  EXPECT_EQ(quality({runs, "--gate", "val_loss=no"}).err,
            "noisemark: quality: --gate: val_loss=no (a margin above 0, as in val_loss=0.01)\n");
  EXPECT_EQ(quality({runs, "--range", "fid=3"}).err,
            "noisemark: quality: --range: fid=3 (METRIC=LOW:HIGH, as in fid=3.1:3.4)\n");
  const test::Finished unknown = quality({runs, "--gate", "val_los"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("nearest \"val_loss\""), std::string::npos) << unknown.err;
  EXPECT_EQ(quality({runs, "--gate", "val_loss=0.2"}).code, 2);
}

}  // namespace
}  // namespace noisemark::suite
