// `noisemark report --format`, `history`, `baseline` and `doctor`, by the real binary.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reports/base/file.h"
#include "reports/render/run_folder.h"
#include "reports/result/json_io.h"
#include "suite/cli/options.h"
#include "tests/reports/compare/runs.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::noisemark;

/// A folder of runs that passed.
std::string write_runs(const fs::path& folder, const std::vector<double>& rates) {
  const reports::Side side =
      reports::test::side(folder.filename(), rates, [](reports::Result& r, size_t) {
        r.artifacts.clear();
        r.provenance.git_diff_sha256.clear();
        r.metrics[0].ci95.reset();  // it belonged to another rate
      });
  for (size_t i = 0; i < side.runs.size(); ++i) {
    const fs::path run = folder / std::to_string(i);
    fs::create_directories(run);
    reports::write_result(run / "result.json", side.runs[i].result);
  }
  return folder.string();
}

TEST(ResultCommands, report_speaks_to_programs_and_changes_nothing) {
  const test::TemporaryFolder folder;
  const std::string runs = write_runs(folder.path() / "a", {16});
  const auto said = [&](const std::string& format) {
    const test::Finished text = noisemark({"report", runs, "--format", format});
    EXPECT_EQ(text.code, 0) << text.err;
    return text.out;
  };
  EXPECT_EQ(said("md").find("# PASS: "), 0U);
  EXPECT_EQ(said("junit").find("<?xml "), 0U);
  EXPECT_EQ(said("ctest").find("<CTestMeasurement "), 0U);
  EXPECT_TRUE(nlohmann::json::parse(said("gha-smaller")).is_array());
  EXPECT_TRUE(nlohmann::json::parse(said("bmf")).is_object());
  EXPECT_FALSE(fs::exists(fs::path(runs) / "0" / "report.md"));
  EXPECT_EQ(noisemark({"report", runs, "--format", "pdf"}).err,
            fmt::format("noisemark: report: --format: pdf (one of: {})\n",
                        fmt::join(report_formats(), ", ")));
  const test::Finished both = noisemark({"report", runs, "--format", "gha"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("--format: gha (gha-smaller or gha-bigger)"), std::string::npos);
  EXPECT_EQ(noisemark({"report", runs, "--out", "x"}).code, 2);
}

TEST(ResultCommands, report_names_every_report_that_it_wrote) {
  const test::TemporaryFolder folder;
  const fs::path runs = write_runs(folder.path() / "a", {16, 17});
  const test::Finished said = noisemark({"report", runs.string()});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.out, fmt::format("report: {}\nreport: {}\n", (runs / "0" / "report.md").string(),
                                  (runs / "1" / "report.md").string()));
  EXPECT_TRUE(fs::exists(runs / "1" / "report.md"));
}

TEST(ResultCommands, report_says_one_line_of_a_folder_that_no_terminal_could_show) {
  const test::TemporaryFolder folder;
  const std::string runs = write_runs(folder.path() / "a\xff\rb", {16});
  const test::Finished done = noisemark({"report", runs + "/0"});
  EXPECT_EQ(done.code, 0) << done.both();
  EXPECT_EQ(done.out,
            "report: " + (folder.path() / "a\uFFFD b" / "0" / "report.md").string() + "\n");
}

bool is_page(const std::string& text, const std::string& title) {
  return text.starts_with("<!doctype html>") && text.ends_with("</html>\n") &&
         text.find("<title>" + title) != std::string::npos;
}

TEST(ResultCommands, report_writes_a_page_beside_each_report_and_leads_from_one_to_the_other) {
  const test::TemporaryFolder folder;
  const fs::path runs = write_runs(folder.path() / "a", {16, 17});
  reports::write_suite(runs, {"two", {"0", "1"}, {}});
  const test::Finished said = noisemark({"report", runs.string(), "--html"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find(fmt::format("page: {}\n", (runs / "1" / "report.html").string())),
            std::string::npos)
      << said.out;
  EXPECT_TRUE(is_page(reports::read_file(runs / "0" / "report.html"), "PASS: "));
  const std::string page = reports::read_file(runs / "report.html");
  EXPECT_TRUE(is_page(page, "PASS: two"));
  EXPECT_NE(page.find("<a href=\"1/report.html\">"), std::string::npos);
  EXPECT_EQ(noisemark({"report", runs.string(), "--html", "--format", "md"}).err,
            "noisemark: report: --html: with --format (one of them)\n");
}

TEST(ResultCommands, report_says_what_changed_since_base_and_keeps_it) {
  const test::TemporaryFolder folder;
  const fs::path base = write_runs(folder.path() / "a", {16});
  const fs::path runs = write_runs(folder.path() / "b", {20});
  const test::Finished said = noisemark({"report", runs.string(), "--base", base.string()});
  EXPECT_EQ(said.code, 0) << said.err;
  const auto report = [&] { return reports::read_file(runs / "0" / "report.md"); };
  const std::string words =
      "Since an earlier run:** throughput 20.00\u00a0images/s, was 16.00\u00a0images/s "
      "(25.0\u00a0% more); ";
  EXPECT_NE(report().find(words), std::string::npos) << report().substr(0, 2000);
  EXPECT_EQ(noisemark({"report", runs.string()}).code, 0);
  EXPECT_NE(report().find(words), std::string::npos) << "it is noted beside the result";
  EXPECT_EQ(noisemark({"check", (runs / "0").string()}).code, 0)
      << noisemark({"check", (runs / "0").string()}).out;
  EXPECT_EQ(noisemark({"report", runs.string(), "--base", base.string(), "--format", "md"}).err,
            "noisemark: report: --base: with --format (one of them)\n");
}

TEST(ResultCommands, sentences_beside_a_result_that_somebody_changed_are_refused_and_found) {
  const test::TemporaryFolder folder;
  const std::string base = write_runs(folder.path() / "a", {16});
  const fs::path run = write_runs(folder.path() / "b", {20}) + "/0";
  ASSERT_EQ(noisemark({"report", run.string(), "--base", base}).code, 0);
  const fs::path file = run / "insight.json";
  std::string text = reports::read_file(file);
  text.replace(text.find("was 16.00"), 9, "was 10.00");
  reports::write_file_atomically(file, text);
  const std::string words = file.string() + ": checksum: does not hold";
  const test::Finished shown = noisemark({"report", run.string()});
  EXPECT_EQ(shown.code, 2) << shown.both();
  EXPECT_EQ(std::count(shown.err.begin(), shown.err.end(), '\n'), 1) << shown.err;
  EXPECT_NE(shown.err.find(words), std::string::npos) << shown.err;
  const test::Finished checked = noisemark({"check", run.string()});
  EXPECT_EQ(checked.code, 1) << checked.both();
  EXPECT_EQ(checked.out.find(file.string() + ": unreadable: checksum: does not hold"), 0U)
      << checked.out;
  EXPECT_EQ(std::count(checked.out.begin(), checked.out.end(), '\n'), 1) << checked.out;
  fs::remove(file);
  EXPECT_EQ(noisemark({"report", run.string(), "--base", base}).code, 0) << "it is found again";
  fs::create_directories(run / "profile");
  reports::write_file_atomically(run / "profile" / "profile.json", "{}");
  EXPECT_EQ(noisemark({"check", run.string()}).code, 1);
}

// The result is whole, and so is its report; a damaged file is another thing.
TEST(ResultCommands, report_names_what_it_cannot_read_beside_a_good_result_and_goes_on) {
  const test::TemporaryFolder folder;
  const std::string base = write_runs(folder.path() / "a", {16});
  const fs::path run = write_runs(folder.path() / "b", {20}) + "/0";
  fs::create_directories(run / "profile");
  const fs::path profile = run / "profile" / "profile.json";
  const fs::path notes = run / "insight.json";
  const std::string loop = ": cannot be read: Too many levels of symbolic links\n";
  fs::create_symlink("profile.json", profile);
  const test::Finished without = noisemark({"report", run.string()});
  EXPECT_EQ(without.code, 0) << without.both();
  EXPECT_EQ(without.err, "noisemark: " + profile.string() + loop);
  EXPECT_NE(reports::read_file(run / "report.md").find("not known, because the profile"),
            std::string::npos);
  fs::remove(profile);
  for (const char* kind : {"loop", "folder"}) {
    fs::remove(notes);
    kind == std::string("loop") ? fs::create_symlink("insight.json", notes)
                                : (void)fs::create_directory(notes);
    fs::remove(run / "report.md");
    const test::Finished shown = noisemark({"report", run.string(), "--base", base});
    EXPECT_EQ(shown.code, 0) << kind << shown.both();
    EXPECT_EQ(shown.err.find("noisemark: " + notes.string() + ": cannot be read: "), 0U)
        << shown.err;
    EXPECT_TRUE(fs::exists(run / "report.md")) << kind;
    EXPECT_EQ(noisemark({"check", run.string()}).code, 1) << "it is found there";
  }
}

TEST(ResultCommands, results_of_a_time_that_never_was_are_refused_by_all) {
  const test::TemporaryFolder folder;
  const fs::path run = write_runs(folder.path() / "a", {16}) + "/0";
  reports::Result result = reports::read_result(run / "result.json");
  for (const char* time : {"2026-99-99T00:00:00Z", "2026-02-29T00:00:00Z", "yesterday", ""}) {
    result.created_utc = time;
    reports::write_result(run / "result.json", result);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"report", run.string(), "--format", "junit"},
          {"report", run.string()},
          {"table", run.string()},
          {"check", run.string()}}) {
      const test::Finished finished = noisemark(words);
      EXPECT_EQ(finished.code, words.front() == "check" ? 1 : 2) << finished.both();
      EXPECT_NE(finished.both().find("created_utc: "), std::string::npos) << finished.both();
      EXPECT_NE(finished.both().find("(a time like 2026-01-02T03:04:05Z)"), std::string::npos);
    }
  }
}

TEST(ResultCommands, a_file_that_is_nested_without_end_is_refused_by_all) {
  const test::TemporaryFolder folder;
  const fs::path run = write_runs(folder.path() / "a", {16}) + "/0";
  const std::string good = reports::read_file(run / "result.json");
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const std::string& text : {deep, "{\"a\": " + deep + "," + good.substr(1)}) {
    reports::write_file_atomically(run / "result.json", text);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"report", run.string(), "--format", "junit"},
          {"report", run.string()},
          {"table", run.string()},
          {"history", run.string()},
          {"check", run.string()}}) {
      const test::Finished finished = noisemark(words);
      EXPECT_EQ(finished.code, words.front() == "check" ? 1 : 2) << finished.both();
      EXPECT_NE(finished.both().find("nested too deeply"), std::string::npos) << finished.both();
    }
  }
}

TEST(ResultCommands, report_says_what_limits_a_run_by_a_profile_in_its_folder) {
  const test::TemporaryFolder folder;
  const fs::path runs = write_runs(folder.path() / "a", {16});
  const fs::path file = runs / "0" / "profile" / "profile.json";
  fs::create_directories(file.parent_path());
  reports::write_file_atomically(file, "{}");
  const test::Finished refused = noisemark({"report", runs.string()});
  EXPECT_NE(refused.code, 0) << refused.err;
  EXPECT_NE(refused.err.find("profile.json"), std::string::npos) << refused.err;
  fs::remove(file);
  EXPECT_EQ(noisemark({"report", runs.string()}).code, 0);
}

TEST(ResultCommands, table_history_and_quality_print_a_page_or_write_it_beside_their_text) {
  const test::TemporaryFolder folder;
  const std::string runs = write_runs(folder.path() / "a", {16, 17});
  EXPECT_TRUE(is_page(noisemark({"table", runs, "--html"}).out, "Results side by side"));
  EXPECT_TRUE(is_page(noisemark({"history", runs, "--html"}).out, "History: 2 runs"));
  const fs::path out = folder.path() / "out";
  EXPECT_EQ(noisemark({"history", runs, "--html", "--out", out.string()}).code, 0);
  EXPECT_TRUE(is_page(reports::read_file(out / "history.html"), "History: 2 runs"));
  EXPECT_EQ(noisemark({"quality", runs, "--html", "--format", "json"}).err,
            "noisemark: quality: --html: with --format json (md, or no --html)\n");
}

TEST(ResultCommands, history_shows_when_the_rate_fell_and_draws_it) {
  const test::TemporaryFolder folder;
  std::vector<double> rates = reports::test::rates_around(16, 12);
  for (const double rate : reports::test::rates_around(14, 12)) rates.push_back(rate);
  const std::string runs = write_runs(folder.path() / "a", rates);
  const test::Finished text = noisemark({"history", runs, "--metric", "images_per_s"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.find("# History: 24 runs, 1 identity, 1 change (1 worse)\n"), 0U) << text.out;
  const fs::path out = folder.path() / "out";
  const test::Finished drawn = noisemark({"history", runs, "--out", out.string()});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_EQ(drawn.out, (out / "history.md").string() + "\n");
  EXPECT_TRUE(fs::exists(out / "plots" / "history_1_images_per_s.gp"));
  const bool picture = fs::exists(out / "plots" / "history_1_images_per_s.svg");
  const std::string page = reports::read_file(out / "history.md");
  EXPECT_EQ(picture, page.find("](plots/history_1_images_per_s.svg)") != std::string::npos);
  EXPECT_NE(picture, page.find("Plots were left out: gnuplot") != std::string::npos);
  EXPECT_EQ(noisemark({"history", runs, "--metric", "speed"}).code, 2);
  EXPECT_EQ(noisemark({"history", (folder.path() / "none").string()}).code, 2);
}

TEST(ResultCommands, trace_says_where_the_time_went_and_refuses_what_is_no_trace) {
  const test::TemporaryFolder folder;
  const std::string trace = folder.path() / "trace.json";
  reports::write_file_atomically(
      trace,
      R"({"traceEvents": [{"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 3, )"
      R"("args": {"stream": 7}}, {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 9, )"
      R"("dur": 2, "args": {"stream": 7}}]})");
  const test::Finished page = noisemark({"trace", trace});
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_EQ(page.out.find("# Trace: trace.json\n"), 0U) << page.out;
  const test::Finished json = noisemark({"trace", trace, "--format", "json"});
  EXPECT_NE(json.out.find("\"idle_us\": 5,"), std::string::npos) << json.out;
  reports::write_file_atomically(trace, R"({"traceEvents": [)");
  const test::Finished cut = noisemark({"trace", trace});
  EXPECT_EQ(cut.code, 2);
  EXPECT_EQ(cut.err, "noisemark: " + trace +
                         ": byte 17: it is cut off (a trace of kineto: JSON, or gzip of it)\n");
}

TEST(ResultCommands, say_what_they_take_where_there_is_no_result) {
  const test::TemporaryFolder folder;
  const std::string accepted = " (a result.json, its folder, or a folder of such folders)\n";
  const std::string empty = folder.path().string();
  const std::string absent = (folder.path() / "absent").string();
  for (const char* command : {"history", "check", "table"}) {
    EXPECT_EQ(noisemark({command, empty}).err,
              "noisemark: " + empty + ": no result.json in it or below it" + accepted);
    EXPECT_EQ(noisemark({command, absent}).err, "noisemark: " + absent + ": not there" + accepted);
  }
  for (const char* command : {"check", "table", "report", "history", "quality"}) {
    const test::Finished device = noisemark({command, "/dev/null"});
    EXPECT_EQ(device.code, 2) << command;
    EXPECT_EQ(device.err, "noisemark: /dev/null: not a folder" + accepted) << command;
  }
}

TEST(ResultCommands, refuse_an_empty_path_and_a_folder_for_a_file) {
  const test::TemporaryFolder folder;
  const std::string runs = write_runs(folder.path() / "runs", {16, 16.1});
  const test::Finished base = noisemark({"compare", "", runs});
  EXPECT_EQ(base.code, 2);
  EXPECT_EQ(base.err, "noisemark: compare: an empty argument (BASE NEW)\n");
  for (const std::string& place : {std::string("/"), folder.path().string()}) {
    const test::Finished report = noisemark({"report", runs, "--format", "md", "--out", place});
    EXPECT_EQ(report.code, 2);
    EXPECT_EQ(report.err, "noisemark: " + place + ": a folder (a file, there or not)\n");
  }
}

TEST(ResultCommands, history_and_baseline_say_which_runs_left_no_result) {
  const test::TemporaryFolder folder;
  const std::string runs = write_runs(folder.path() / "a", {16, 16.1, 15.9});
  const std::vector<std::string> all{"begun", "begun-2", "begun-3", "begun-4", "begun-5"};
  for (const std::string& begun : all) {
    fs::create_directories(fs::path(runs) / begun);
    reports::write_file_atomically(fs::path(runs) / begun / "events.mlog", "");
  }
  fs::create_directories(folder.path() / "into");
  const test::Finished history = noisemark({"history", runs});
  EXPECT_EQ(history.code, 0) << history.err;
  for (const std::string& said : {history.out, history.err}) {
    for (const std::string& begun : all) {
      EXPECT_NE(said.find(begun + ": it was begun and left no result"), std::string::npos) << said;
    }
  }
  const test::Finished promoted =
      noisemark({"baseline", "promote", runs, "--into", (folder.path() / "into").string()});
  EXPECT_EQ(promoted.code, 0) << promoted.err;
  EXPECT_NE(promoted.out.find("begun: it was begun and left no result"), std::string::npos)
      << promoted.out;
}

TEST(ResultCommands, check_table_and_report_name_every_run_that_left_no_result) {
  const test::TemporaryFolder folder;
  const fs::path many = write_runs(folder.path() / "many", {16, 16.1});
  fs::create_directories(many / "begun");
  reports::write_file_atomically(many / "begun" / "events.mlog", "");
  const auto expect_named = [](const std::string& command, const fs::path& runs, int code,
                               const std::string& words) {
    const test::Finished done = noisemark({command, runs.string()});
    EXPECT_EQ(done.code, code) << command << done.both();
    EXPECT_NE(done.both().find(words), std::string::npos) << command << done.both();
    EXPECT_EQ(done.out.find("nothing is wrong"), std::string::npos) << done.out;
  };
  const std::string begun = (many / "begun").string();
  expect_named("check", many, 1, begun + ": lost: it was begun and left no result");
  expect_named("table", many, 2, begun + ": it was begun and left no result");
  expect_named("report", many, 2, begun + ": it was begun and left no result");

  const fs::path suite = write_runs(folder.path() / "suite", {16, 16.1});
  reports::write_suite(suite, {"a suite", {"0", "1", "gone"}, {}, {}, {}});
  const std::string gone = (suite / "gone").string();
  expect_named("check", suite, 1, gone + ": lost: it left no result");
  expect_named("table", suite, 2, gone + ": it left no result");
  expect_named("report", suite, 2, gone + ": it left no result");
  expect_named("check", folder.path(), 1, gone + ": lost: it left no result");
  expect_named("table", folder.path(), 2, gone + ": it left no result");
}

TEST(ResultCommands, table_and_history_pass_over_what_is_broken_or_missing_and_name_it) {
  const test::TemporaryFolder folder;
  const std::string good = write_runs(folder.path() / "good", {16, 16.1, 15.9});
  const std::string missing = (folder.path() / "missing").string();
  const test::Finished table = noisemark({"table", missing, good});
  EXPECT_EQ(table.code, 2);
  EXPECT_NE(table.out.find("16.1"), std::string::npos) << table.out;
  EXPECT_NE(table.err.find(missing + ": not there"), std::string::npos) << table.err;

  reports::write_file_atomically(fs::path(good) / "1" / "result.json", "{");
  for (const auto& words : {std::vector<std::string>{"history", good},
                            std::vector<std::string>{"history", missing, good}}) {
    const test::Finished history = noisemark(words);
    EXPECT_EQ(history.code, 2) << history.both();
    EXPECT_NE(history.out.find("1: not JSON"), std::string::npos) << history.both();
  }
  EXPECT_EQ(noisemark({"compare", good, good + "/0"}).code, 2);
}

TEST(ResultCommands, history_and_baseline_of_begun_runs_alone_are_refused) {
  const test::TemporaryFolder folder;
  fs::create_directories(folder.path() / "runs" / "begun");
  fs::create_directories(folder.path() / "into");
  const std::string runs = (folder.path() / "runs").string();
  const test::Finished history = noisemark({"history", runs});
  EXPECT_EQ(history.code, 2);
  EXPECT_EQ(history.err, "noisemark: " + runs + ": no run with a result (at least one)\n");
  EXPECT_EQ(
      noisemark({"baseline", "promote", runs, "--into", (folder.path() / "into").string()}).code,
      2);
}

TEST(ResultCommands, check_of_a_report_says_that_it_wants_the_result) {
  const test::TemporaryFolder folder;
  const std::string runs = write_runs(folder.path() / "a", {16});
  ASSERT_EQ(noisemark({"report", runs + "/0"}).code, 0);
  const std::string report = runs + "/0/report.md";
  const test::Finished refused = noisemark({"check", report});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, "noisemark: " + report +
                             ": the report of a run (a result.json, its folder, or a folder of "
                             "such folders)\n");
  EXPECT_EQ(refused.out, "");
}

TEST(ResultCommands, report_replaces_nothing_that_it_did_not_write) {
  const test::TemporaryFolder folder;
  const fs::path runs = write_runs(folder.path() / "runs", {16, 16});
  ASSERT_EQ(noisemark({"report", runs.string()}).code, 0);
  EXPECT_EQ(noisemark({"report", runs.string()}).code, 0) << "its own";
  const fs::path text = runs / "0" / "report.md";
  const fs::path plot = runs / "0" / "plots" / "loss.svg";
  const fs::path link = runs / "1" / "report.md";
  const fs::path target = folder.path() / "elsewhere.md";
  fs::rename(link, target);
  fs::create_symlink(target, link);
  for (const fs::path& file : {text, plot}) {
    fs::create_directories(file.parent_path());
    reports::write_file_atomically(file, "mine");
  }
  const std::string before = reports::read_file(target);
  reports::write_file_atomically(target, before + "\nand mine\n");
  const test::Finished refused = noisemark({"report", runs.string()});
  EXPECT_EQ(refused.code, 2) << refused.both();
  for (const fs::path& file : {text, plot, link}) {
    EXPECT_NE(refused.err.find(file.string()), std::string::npos) << refused.err;
  }
  EXPECT_NE(refused.err.find("--force to replace it"), std::string::npos) << refused.err;
  EXPECT_EQ(reports::read_file(text), "mine");
  EXPECT_EQ(reports::read_file(plot), "mine");
  EXPECT_NE(reports::read_file(target), before);
  EXPECT_EQ(noisemark({"report", runs.string(), "--force"}).code, 0);
  EXPECT_NE(reports::read_file(text), "mine");
  EXPECT_EQ(noisemark({"report", runs.string()}).code, 2) << "the link is still there";
}

TEST(ResultCommands, check_says_one_line_of_a_folder_whose_name_has_several) {
  const test::TemporaryFolder folder;
  const std::string runs = write_runs(folder.path() / "a\nb: nothing is wrong", {16});
  reports::write_file_atomically(fs::path(runs) / "0" / "report.md", "");
  const test::Finished checked = noisemark({"check", runs});
  EXPECT_EQ(checked.code, 1) << checked.both();
  EXPECT_EQ(std::count(checked.out.begin(), checked.out.end(), '\n'), 1) << checked.out;
}

TEST(ResultCommands, baseline_keeps_runs_that_compare_takes) {
  const test::TemporaryFolder folder;
  const fs::path into = folder.path() / "results";
  fs::create_directories(into);
  const std::string runs = write_runs(folder.path() / "a", reports::test::rates_around(16, 6));
  const auto promote = [&](const std::string& path) {
    return noisemark({"baseline", "promote", path, "--into", into.string(), "--hardware", "here"});
  };
  EXPECT_EQ(noisemark({"baseline", "show", into.string()}).code, 5);
  EXPECT_EQ(noisemark({"compare", into.string(), runs}).code, 5);
  EXPECT_EQ(promote(runs + "/0").code, 2) << "one run";
  const test::Finished kept = promote(runs);
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_TRUE(fs::exists(into / "here" / "ho-cifar10@cpu" / "none-plain-fp32-cpu" / "baseline.md"));
  EXPECT_EQ(promote(runs).code, 2) << "it is there already";
  EXPECT_EQ(noisemark({"baseline", "show", into.string()}).code, 0);
  const std::string newer = write_runs(folder.path() / "b", reports::test::rates_around(16, 6));
  const test::Finished compared = noisemark({"compare", into.string(), newer});
  EXPECT_EQ(compared.code, 0) << compared.out << compared.err;
  EXPECT_EQ(noisemark({"baseline", "promot", runs}).code, 2);
}

TEST(ResultCommands, doctor_explains_this_machine) {
  const test::Finished text = noisemark({"doctor"});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* what : {"source: ", "CPU governor: ", "CPU turbo: ", "GPU: ", "container: "}) {
    EXPECT_NE(text.out.find(what), std::string::npos) << what << "\n" << text.out;
  }
  EXPECT_TRUE(nlohmann::json::parse(noisemark({"doctor", "--json"}).out).is_array());
}

TEST(ResultCommands, name_a_path_that_cannot_be_looked_at_and_never_call_it_an_internal_error) {
  const test::TemporaryFolder folder;
  const std::string runs = write_runs(folder.path() / "runs", {16});
  fs::create_symlink(folder.path() / "loop", folder.path() / "loop");
  const std::string out = (folder.path() / "out.npz").string();
  const std::string free = (folder.path() / "free").string();
  const std::vector<std::string> paths = {(folder.path() / "loop" / "run").string(),
                                          (folder.path() / std::string(300, 'a')).string()};
  for (size_t p = 0; p < paths.size(); ++p) {  // every other line has the one, the rest the other
    const std::string& path = paths[p];
    const std::vector<std::vector<std::string>> lines = {
        {"check", path},
        {"report", path},
        {"report", path, "--format", "md"},
        {"report", runs, "--format", "md", "--out", path},
        {"table", path},
        {"history", path},
        {"history", runs, "--out", path},
        {"compare", path, runs},
        {"compare", runs, runs, "--calibration", path},
        {"quality", path},
        {"quality", runs, "--out", path},
        {"baseline", "promote", path},
        {"baseline", "show", path},
        {"ab", "--from", path},
        {"calibrate", "--from", path},
        {"fid", path, "--out", out},
        {"fid", runs, runs, "--features-cache", path},
        {"run", path + ".toml"},
        {"run", "gmm16", "--flags", path},
        {"run", "gmm16", "--init-weights", path, "--out", free},
        {"run", "gmm16", "--set", "train.steps=1", "--out", path},
        {"run", "gmm16", "--set", "train.steps=1", "--out", path, "--resume"},
        {"run", "gmm16", "--set", "train.steps=1", "--out", path, "--force"},
        {"run", "lucid-cifar10", "--data", path, "--out", free},
        {"run", "gmm16", "--set", "data.name=folder", "--set", "model.channels=3", "--data", path,
         "--out", free},
        {"sample", "gmm16", "--weights", path, "--out", free},
        {"sample", "gmm16", "--weights", runs, "--out", path},
        {"sample", "gmm16", "--weights", runs, "--noise", path, "--out", free},
        {"sweep", "gmm16", "--axis", "seed=1", "--out", path}};
    for (size_t i = p; i < lines.size(); i += paths.size()) {
      std::vector<std::string> words = lines[i];
      if (words.front() == "run" || words.front() == "sample" || words.front() == "sweep") {
        words.insert(words.end(), {"--device", "cpu"});
      }
      const test::Finished finished = noisemark(words);
      const bool told = finished.code == 2 || finished.code == 74 || finished.code == 77;
      EXPECT_TRUE(told) << fmt::format("{}", words.front()) << ": " << finished.code << ": "
                        << finished.both();
      EXPECT_EQ(finished.err.find("internal error"), std::string::npos) << finished.err;
    }
  }
}

}  // namespace
}  // namespace noisemark::suite
