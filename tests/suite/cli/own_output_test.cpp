#include "suite/cli/arguments.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/file.h"
#include "reports/render/run_folder.h"
#include "reports/result/json_io.h"
#include "suite/cli/options.h"
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

  [[nodiscard]] static Words with_out(Words words, const std::string& out) {
    words.insert(words.end(), {"--out", out});
    return words;
  }

  /// Expects that the words with --out leave the file there, which the command did not write.
  static void expect_left(const Words& words, const std::string& file, const std::string& out) {
    const std::string before = reports::read_file(file);
    const test::Finished refused = noisemark(with_out(words, out));
    EXPECT_EQ(refused.code, 2) << words.front() << ": " << refused.both();
    EXPECT_EQ(refused.err, "noisemark: --out: " + file +
                               ", a file that this command did not write (another place, or "
                               "--force to replace it)\n");
    EXPECT_EQ(reports::read_file(file), before) << words.front();
  }
  static void expect_left(const Words& words, const std::string& file) {
    expect_left(words, file, file);
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

TEST_F(OwnOutput, replaces_what_it_did_not_write_only_by_force) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {report(), "notes"},
      {compare(), "notes"},
      {{"trace", text("trace.json")}, "notes"},
      {{"fid", text("features.npy")}, "notes"},
      {{"fit", "gmm16@cpu", "--memory", "1KiB"}, "notes"},
      {{"history", text("runs")}, "history.md"},
      {{"quality", text("runs")}, "quality.md"},
      {{"ab", "gmm16", "--a", "a", "--b", "b"}, "ab.md"},
      {{"calibrate", "gmm16"}, "calibration.md"},
      {{"selftest"}, "selftest.md"}};
  for (const auto& [words, name] : cases) {
    reports::write_file_atomically(at(name), "# What I thought\n");
    if (name != "notes") {
      expect_left(words, text(name), at("").string());
      fs::remove(at(name));
      continue;
    }
    expect_left(words, text(name));
    if (words.front() == "fit") continue;  // trains for seconds
    Words by_force = with_out(words, text(name));
    by_force.emplace_back("--force");
    const test::Finished forced = noisemark(by_force);
    EXPECT_NE(forced.code, 2) << words.front() << ": " << forced.both();
    EXPECT_NE(forced.out.find(text(name)), std::string::npos) << "says where the text is";
    EXPECT_NE(reports::read_file(at(name)), "# What I thought\n") << words.front();
  }
}

TEST_F(OwnOutput, is_asked_for_a_place_before_the_work_that_is_to_be_written_there) {
  const std::string place = text("not there") + "/text";
  const test::Finished fit =
      noisemark({"fit", "no such benchmark", "--memory", "1GiB", "--out", place});
  EXPECT_EQ(fit.code, 74) << fit.both();
  EXPECT_NE(fit.err.find(place), std::string::npos) << fit.err;
}

TEST_F(OwnOutput, replaces_no_text_that_only_begins_like_its_own) {
  const Words trace = {"trace", text("trace.json")};
  const std::pair<Words, const char*> texts[] = {
      {report(), "# Seen\n\n3 of 5 runs passed.\n"},
      {report(), "<CTestMeasurement type=\"numeric/double\" name=\"mine\">5</CTestMeasurement>\n"},
      {report(), "[] is what I got\n"},
      {compare(), "{} is what I got\n"},
      {compare(), "<!doctype html>\n<title>mine</title>\n<p id=\"noisemark-data\">\n"},
      {trace, "# Trace: what I think of it\n"},
      {trace, "{\n  \"events\": \"mine\"}\n"}};
  for (const auto& [words, mine] : texts) {
    reports::write_file_atomically(at("notes"), mine);
    expect_left(words, text("notes"));
  }
  fs::create_directories(at("of"));
  reports::write_file_atomically(at("of/history.md"), "# History: what I remember\n");
  expect_left({"history", text("runs")}, text("of/history.md"), text("of"));
  reports::write_file_atomically(at("of/quality.md"), "# Notes: quality of life\n");
  expect_left({"quality", text("runs")}, text("of/quality.md"), text("of"));
}

TEST_F(OwnOutput, page_beside_a_report_replaces_no_page_of_another_unasked) {
  const Words words = {"report", text("runs/0"), "--html"};
  reports::write_file_atomically(at("runs/0/report.html"), "mine");
  const test::Finished refused = noisemark(words);
  EXPECT_EQ(refused.code, 2) << refused.both();
  EXPECT_NE(refused.err.find(text("runs/0/report.html") + ": a file that this command did not"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(reports::read_file(at("runs/0/report.html")), "mine");
  Words by_force = words;
  by_force.emplace_back("--force");
  EXPECT_EQ(noisemark(by_force).code, 0);
  EXPECT_NE(reports::read_file(at("runs/0/report.html")), "mine");
  EXPECT_EQ(noisemark(words).code, 0) << "replaces its own";
}

TEST_F(OwnOutput, of_every_format_is_known_again) {
  std::vector<Words> all;
  for (const std::string& format : report_formats()) {
    all.push_back({"report", text("runs"), "--format", format});
  }
  for (const std::string& format : comparison_formats()) {
    Words both = compare();
    both.insert(both.end(), {"--format", format});
    all.push_back(both);
  }
  Words page = compare();
  page.emplace_back("--html");
  all.push_back(page);
  for (const char* format : {"md", "json"}) {
    all.push_back({"trace", text("trace.json"), "--format", format});
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string out = text("out" + std::to_string(i));
    const test::Finished first = noisemark(with_out(all[i], out));
    const test::Finished again = noisemark(with_out(all[i], out));
    EXPECT_EQ(again.code, first.code) << i << ": " << again.both();
    EXPECT_NE(again.code, 2) << i << ": " << again.both();
    for (const Words& other : {report(), compare(), Words{"trace", text("trace.json")}}) {
      if (other.front() != all[i].front()) expect_left(other, out);
    }
  }
  for (int times = 0; times < 2; ++times) {
    const test::Finished done = noisemark({"history", text("runs"), "--html", "--out", text("of")});
    EXPECT_EQ(done.code, 0) << done.both();
  }
  reports::write_file_atomically(at("mktemp"), "");
  EXPECT_EQ(noisemark({"trace", text("trace.json"), "--out", text("mktemp")}).code, 0);
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

TEST_F(OwnOutput, of_moments_is_known_by_its_arrays_alone) {
  const at::Tensor some = at::ones({3}, at::kDouble);
  write_npz(text("foreign.npz"), {{"mean", some}, {"sigma", some}});
  const std::string before = reports::read_file(at("foreign.npz"));
  EXPECT_EQ(noisemark({"fid", text("features.npy"), "--out", text("foreign.npz")}).code, 2);
  EXPECT_EQ(reports::read_file(at("foreign.npz")), before);
  write_npy(text("pictures.npy"), (at::arange(8 * 12) * 37 % 251).to(at::kByte).view({8, 3, 2, 2}));
  for (const char* set : {"features", "pictures"}) {
    const std::string out = text(std::string(set) + "-moments.npz");
    for (int times = 0; times < 2; ++times) {
      const test::Finished done = noisemark({"fid", text(std::string(set) + ".npy"), "--out", out});
      EXPECT_EQ(done.code, 0) << done.both();
    }
  }
}

TEST_F(OwnOutput, to_the_stream_of_the_program_is_what_it_would_print) {
  Words words = compare();
  words.insert(words.end(), {"--format", "json"});
  const std::string printed = noisemark(words).out;
  words.insert(words.end(), {"--out", "/dev/stdout"});
  EXPECT_EQ(noisemark(words).out, printed) << "and no path behind it";
}

TEST_F(OwnOutput, replaces_plots_that_it_did_not_draw_only_by_force) {
  const Words plan = {"plan", "gmm16@cpu", "--device", "cpu", "--budget", "1GiB"};
  const Words history = {"history", text("runs")};
  Words drawn = history;
  drawn.insert(drawn.end(), {"--out", text("drawn")});
  ASSERT_EQ(noisemark(drawn).code, 0);
  std::vector<std::pair<Words, std::string>> cases = {{plan, "pareto.svg"}};
  for (const auto& entry : fs::directory_iterator(at("drawn/plots"))) {
    if (cases.size() < 3 && entry.path().extension() != ".gp") {
      cases.emplace_back(history, entry.path().filename().string());
    }
  }
  ASSERT_EQ(cases.size(), 3U);
  fs::create_directories(at("of/plots"));
  for (const auto& [words, name] : cases) {
    const std::string plot = "of/plots/" + name;
    reports::write_file_atomically(at(plot), "mine");
    expect_left(words, text(plot), text("of"));
    Words by_force = with_out(words, text("of"));
    by_force.emplace_back("--force");
    const test::Finished forced = noisemark(by_force);
    EXPECT_EQ(forced.code, 0) << words.front() << ": " << forced.both();
    EXPECT_NE(reports::read_file(at(plot)), "mine") << words.front();
    const test::Finished again = noisemark(with_out(words, text("of")));
    EXPECT_EQ(again.code, 0) << words.front() << " replaces its own: " << again.both();
  }
}

TEST_F(OwnOutput, of_a_self_test_is_known_again) {
  for (int times = 0; times < 2; ++times) {
    const test::Finished done = noisemark({"selftest", "--out", text("self")});
    EXPECT_TRUE(fs::exists(at("self/selftest.md"))) << done.both();
    EXPECT_EQ(done.err.find("did not write"), std::string::npos) << done.err;
  }
}

TEST_F(OwnOutput, leaves_a_page_that_it_was_not_asked_for) {
  fs::create_directories(at("of"));
  reports::write_file_atomically(at("of/history.html"), "mine");
  EXPECT_EQ(noisemark({"history", text("runs"), "--out", text("of")}).code, 0);
  EXPECT_EQ(reports::read_file(at("of/history.html")), "mine");
  EXPECT_EQ(noisemark({"history", text("runs"), "--html", "--out", text("of")}).code, 2);
}

}  // namespace
}  // namespace noisemark::suite
