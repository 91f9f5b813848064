#include "suite/cli/own_output.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "reports/base/file.h"
#include "reports/render/run_folder.h"
#include "reports/result/json_io.h"
#include "suite/io/numpy.h"
#include "tests/reports/compare/runs.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::noisemark;
using Words = std::vector<std::string>;

class OwnOutput : public ::testing::Test {
 protected:
  /// Two runs, features and a trace, each of which a command reads.
  OwnOutput() {
    const reports::Side side = reports::test::side("runs", {16, 16.1});
    for (size_t i = 0; i < 2; ++i) {
      reports::Result result = side.runs[i].result;
      result.artifacts.clear();
      fs::create_directories(at("runs/" + std::to_string(i)));
      reports::write_result(at("runs/" + std::to_string(i)) / "result.json", result);
    }
    write_npy(at("features.npy").string(), at::arange(24, at::kFloat).view({8, 3}).sin());
    reports::write_file_atomically(
        at("trace.json"), R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", )"
                          R"("pid": 1, "tid": 1, "ts": 0, "dur": 5}]})");
  }

  [[nodiscard]] fs::path at(const std::string& name) const { return folder_.path() / name; }
  [[nodiscard]] std::string text(const std::string& name) const { return at(name).string(); }

  /// Expects that the words with --out are refused, and that nothing was written over `kept`.
  void expect_refused(Words words, const std::string& out, const std::string& kept) const {
    const std::string before = reports::read_file(at(kept));
    words.insert(words.end(), {"--out", text(out)});
    const test::Finished finished = noisemark(words);
    EXPECT_EQ(finished.code, 2) << words.front() << " " << out << ": " << finished.both();
    EXPECT_EQ(finished.err.find("noisemark: --out: " + text(out) + ", "), 0U) << finished.err;
    EXPECT_NE(finished.err.find(" (another file)\n"), std::string::npos) << finished.err;
    EXPECT_EQ(reports::read_file(at(kept)), before) << words.front() << " " << out;
  }

  [[nodiscard]] Words report() const { return {"report", text("runs"), "--format", "junit"}; }
  [[nodiscard]] Words compare() const {
    return {"compare", text("runs/0"), text("runs/1"), "--exact"};
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(OwnOutput, is_no_file_that_the_command_reads) {
  const std::string result = "runs/0/result.json";
  expect_refused(report(), result, result);
  expect_refused({"report", text(result), "--format", "md"}, result, result);
  expect_refused(compare(), result, result);
  expect_refused({"trace", text("trace.json")}, "trace.json", "trace.json");
  expect_refused({"fid", text("features.npy")}, "features.npy", "features.npy");
  expect_refused({"fid", text("features.npy"), text("features.npy")}, "features.npy",
                 "features.npy");
  reports::write_file_atomically(at("mine.toml"), "id = \"mine\"\n");
  expect_refused({"fit", text("mine.toml"), "--memory", "1GiB"}, "mine.toml", "mine.toml");
  reports::write_file_atomically(at("flags.toml"), "seed = 7\n");
  expect_refused({"fit", "gmm16@cpu", "--memory", "1GiB", "--flags", text("flags.toml")},
                 "flags.toml", "flags.toml");
}

TEST_F(OwnOutput, is_no_other_name_of_a_file_that_the_command_reads) {
  const std::string result = "runs/0/result.json";
  fs::create_symlink(at(result), at("soft"));
  fs::create_hard_link(at(result), at("hard"));
  fs::create_hard_link(at("features.npy"), at("hard.npy"));
  fs::create_directory_symlink(at("runs"), at("elsewhere"));
  fs::create_directory_symlink(at("runs"), at("runs/loop"));
  for (const char* out : {"soft", "hard", "elsewhere/0/result.json", "runs/0/../0/result.json"}) {
    expect_refused(report(), out, result);
    expect_refused(compare(), out, result);
  }
  expect_refused({"fid", text("features.npy")}, "hard.npy", "features.npy");
}

TEST_F(OwnOutput, is_no_part_of_the_results_in_a_folder_though_another_is_read) {
  ASSERT_EQ(noisemark({"report", text("runs/1")}).code, 0);
  for (const char* name : {"result.json", "report.md", "plots/loss.dat"}) {
    if (!fs::exists(at("runs/1") / name)) continue;
    const std::string part = std::string("runs/1/") + name;
    expect_refused({"trace", text("trace.json")}, part, part);
  }
}

TEST_F(OwnOutput, of_earlier_is_written_again_wherever_it_lies) {
  for (const char* out : {"runs/junit.xml", "runs/0/junit.xml", "runs/report.md", "result.json"}) {
    for (int times = 0; times < 2; ++times) {
      Words words = report();
      words.insert(words.end(), {"--out", text(out)});
      const test::Finished finished = noisemark(words);
      EXPECT_EQ(finished.code, 0) << out << ": " << finished.both();
      EXPECT_EQ(reports::read_file(at(out)).find("<?xml "), 0U) << out;
    }
  }
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(noisemark({"fid", text("features.npy"), "--out", text("moments.npz")}).code, 0);
  }
}

TEST_F(OwnOutput, is_no_folder_of_a_run_to_a_command_that_writes_other_things) {
  const test::Finished history =
      noisemark({"history", text("runs/0"), text("runs/1"), "--out", text("runs/0")});
  EXPECT_EQ(history.code, 2) << history.both();
  EXPECT_EQ(history.err,
            "noisemark: --out: " + text("runs/0") + ", the folder of a run (another folder)\n");
  EXPECT_FALSE(fs::exists(at("runs/0/history.md")));
  EXPECT_EQ(noisemark({"history", text("runs"), "--out", text("runs")}).code, 0)
      << "a folder of runs is none";
}

}  // namespace
}  // namespace noisemark::suite
