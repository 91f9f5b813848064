#include "reports/render/check.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/sha256.h"
#include "reports/render/plot.h"
#include "reports/render/report.h"
#include "reports/render/run_folder.h"
#include "reports/result/events.h"
#include "reports/result/json_io.h"
#include "tests/reports/findings.h"
#include "tests/reports/plain_user.h"
#include "tests/reports/sample_result.h"

// These tests show what check() says about folders of results.
namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using test::full_result;
using test::listed;
using test::minimal_result;
using test::starts;

class CheckFolder : public testing::Test {
 protected:
  CheckFolder()
      : folder_(fs::path(testing::TempDir()) / ("noisemark_check_" + std::to_string(getpid()))) {
    make_folder(folder_);
    write_events();
    Result result = full_result();
    result.artifacts = {{"events.mlog", sha256_of_file(folder_ / "events.mlog")}};
    write_result(folder_ / "result.json", result);
    write_report();
  }
  ~CheckFolder() override { fs::remove_all(folder_); }

  void write_events() const {
    int64_t now = 0;
    EventWriter events(folder_ / "events.mlog", false, [&] { return ++now; });
    for (const char* name : {"init", "run"}) {
      events.start(name);
      events.stop(name);
    }
  }
  void write_report(const std::string& run_id = "0123456789abcdef") const {
    const fs::path file = folder_ / "result.json";
    Result result = read_result(file);
    result.run_id = run_id;
    Plots none;
    none.left_out = "gnuplot is not installed";
    write_file_atomically(folder_ / "report.md", render_report(result, sha256_of_file(file), none));
  }
  std::string found() const { return listed(check(folder_)); }

  fs::path folder_;
};

TEST_F(CheckFolder, finds_nothing_in_a_good_one) {
  EXPECT_EQ(found(), "");
  EXPECT_EQ(listed(check(folder_ / "result.json")), "");
  EXPECT_EQ(listed(check(folder_.parent_path() / folder_.filename())), "");
}

TEST_F(CheckFolder, finds_a_folder_that_cannot_be_read_beside_those_that_can) {
  const fs::path suite = folder_ / "suite";
  for (const char* name : {"a", "b", "z"}) make_folder(suite / name);
  write_result(suite / "a" / "result.json", minimal_result());
  write_file_atomically(suite / "b" / "result.json", "{");
  write_result(suite / "z" / "result.json", minimal_result());
  make_folder(suite / "locked");
  fs::permissions(suite / "locked", fs::perms::none);
  {
    const test::PlainUserGuard guard;
    const std::string found = listed(check(suite));
    EXPECT_NE(found.find("unreadable: cannot be read: Permission denied"), std::string::npos)
        << found;
    EXPECT_NE(found.find("schema: not JSON"), std::string::npos) << "it went on: " << found;

    std::vector<Finding> lost;
    const std::string table = table_markdown({suite.string()}, &lost);
    EXPECT_EQ(lost.size(), 2U) << listed(lost);
    EXPECT_NE(table.find((suite / "z").string()), std::string::npos) << table;
    EXPECT_NE(table.find("Not in the table:"), std::string::npos) << table;

    lost.clear();
    const CollectedResults collected = collect_results(suite, &lost);
    EXPECT_EQ(collected.results.size(), 2U);
    EXPECT_EQ(collected.missing.size(), 2U);
    for (const MissingRun& one : collected.missing) {
      EXPECT_EQ(one.not_run, "") << "what cannot be read was run, so it must not count as skipped";
      EXPECT_NE(one.failed, kNoResult) << one.name;
    }
  }
  fs::permissions(suite / "locked", fs::perms::owner_all);
  std::vector<Finding> lost;
  EXPECT_EQ(rewrite_report(suite, &lost).size(), 2U);
  EXPECT_EQ(lost.size(), 1U) << listed(lost);
}

TEST_F(CheckFolder, finds_each_part_that_cannot_be_read_beside_what_is_wrong_with_the_others) {
  Result result = full_result();
  make_folder(folder_ / "locked");
  make_folder(folder_ / "plots");
  write_file_atomically(folder_ / "weights.bin", "other");
  result.artifacts = {{"locked/ema.bin", sha256_of("x")}, {"weights.bin", sha256_of("x")}};
  write_result(folder_ / "result.json", result);
  write_report();
  const auto lock = [&](fs::perms to) {
    for (const char* name : {"locked", "plots", "events.mlog", "report.md"}) {
      fs::permissions(folder_ / name, to);
    }
  };
  lock(fs::perms::none);
  {
    const test::PlainUserGuard guard;
    std::map<std::string, std::string> words;
    for (const Finding& one : check(folder_)) {
      words[fs::path(one.file).lexically_relative(folder_).generic_string()] = one.words;
    }
    EXPECT_EQ(words["locked/ema.bin"], "cannot be read: Permission denied");
    EXPECT_NE(words["weights.bin"].find("it was changed after the run"), std::string::npos);
    EXPECT_NE(words["events.mlog"].find("cannot be read"), std::string::npos);
    EXPECT_EQ(words["report.md"], "cannot be read: Permission denied");
    EXPECT_EQ(words["plots/loss.dat"], "cannot be read: Permission denied");
  }
  lock(fs::perms::owner_all);
}

TEST_F(CheckFolder, finds_a_list_of_a_suite_that_is_none_also_where_there_is_no_report) {
  const fs::path suite = folder_ / "suite";
  make_folder(suite / "a");
  write_result(suite / "a" / "result.json", minimal_result());
  EXPECT_EQ(listed(check(suite)), "");
  write_file_atomically(suite / "suite.json", "[");
  const std::string found = listed(check(suite));
  EXPECT_NE(found.find("suite.json: not JSON"), std::string::npos) << found;
}

TEST_F(CheckFolder, that_is_a_suite_with_a_broken_result_is_reported_with_the_others) {
  const fs::path suite = folder_ / "suite";
  for (const char* name : {"a", "b"}) {
    make_folder(suite / name);
    write_result(suite / name / "result.json", minimal_result());
  }
  write_suite(suite, {"smoke", {"a", "b"}, {}});
  fs::resize_file(suite / "a" / "result.json", 100);
  std::vector<Finding> lost;
  EXPECT_EQ(rewrite_report(suite, &lost).size(), 2U);
  EXPECT_EQ(lost.size(), 1U) << listed(lost);
  const std::string report = read_file(suite / "report.md");
  EXPECT_TRUE(report.starts_with("# FAIL: smoke")) << report;
  EXPECT_NE(report.find("- `a`: not JSON"), std::string::npos) << report;
  lost.clear();
  EXPECT_EQ(collect_results(suite, &lost).results.size(), 1U);
  EXPECT_EQ(lost.size(), 1U) << listed(lost);
}

TEST_F(CheckFolder, knows_that_a_run_whose_events_nobody_lists_had_some) {
  Result result = full_result();
  result.artifacts = {{"weights.safetensors", std::string(64, 'a')}};
  fs::remove(folder_ / "events.mlog");
  write_result(folder_ / "result.json", result);
  write_report();
  EXPECT_NE(found().find("events: every run writes it and it is not there"), std::string::npos)
      << found();
}

TEST_F(CheckFolder, without_a_place_for_what_is_lost_an_unreadable_folder_is_refused) {
  const fs::path suite = folder_ / "suite";
  make_folder(suite / "a");
  write_result(suite / "a" / "result.json", minimal_result());
  const fs::path locked = suite / "locked";
  make_folder(locked);
  fs::permissions(locked, fs::perms::none);
  const std::map<std::string, std::function<void()>> uses = {
      {"table", [&] { (void)table_markdown({suite.string()}); }},
      {"report", [&] { (void)rewrite_report(suite); }},
      {"export", [&] { (void)collect_results(suite); }}};
  {
    const test::PlainUserGuard guard;
    for (const auto& [name, use] : uses) {
      try {
        use();
        ADD_FAILURE() << name << " says nothing of " << locked;
      } catch (const Error& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with(locked.string())) << error.what();
        EXPECT_EQ(error.code(), ExitCode::kBadInput) << name;
      }
    }
  }
  fs::permissions(locked, fs::perms::owner_all);
}

TEST_F(CheckFolder, looks_at_every_result_of_a_suite) {
  const fs::path suite = folder_ / "suite";
  for (const char* name : {"b", "a"}) {
    make_folder(suite / name);
    write_result(suite / name / "result.json", minimal_result());
  }
  ASSERT_EQ(result_folders(suite).size(), 2U);
  EXPECT_EQ(result_folders(suite)[0].filename(), "a");
  EXPECT_EQ(listed(check(suite)), "");
  fs::resize_file(suite / "b" / "result.json", 100);
  EXPECT_EQ(check(suite).size(), 1U) << listed(check(suite));
}

TEST_F(CheckFolder, takes_no_replacement_of_a_run_for_a_run) {
  const fs::path suite = folder_ / "suite";
  for (const char* name : {"a", "a/replacement", "a/replacing", "a/arriving", "replacement/b"}) {
    make_folder(suite / name);
    write_result(suite / name / "result.json", minimal_result());
  }
  EXPECT_EQ(result_folders(suite),
            (std::vector<fs::path>{suite / "a", suite / "replacement" / "b"}));
  EXPECT_EQ(result_folders(suite / "a" / "replacement").size(), 1U) << "it was asked for";
}

TEST_F(CheckFolder, finds_a_changed_digit) {
  std::string text = read_file(folder_ / "result.json");
  const std::string key = "\"naive_saved_bytes\": 1";
  text.replace(text.find(key), key.size(), "\"naive_saved_bytes\": 2");
  write_file_atomically(folder_ / "result.json", text);
  EXPECT_TRUE(starts(found(), "checksum: ")) << found();
  EXPECT_NE(found().find("report: it is stale"), std::string::npos) << found();
}

TEST_F(CheckFolder, says_once_and_in_its_own_words_where_a_result_stops_being_json) {
  const std::string text = read_file(folder_ / "result.json");
  write_file_atomically(folder_ / "result.json", text.substr(0, text.size() / 2));
  EXPECT_EQ(found(), "schema: not JSON: it ends too early\n");
  EXPECT_EQ(listed(check(folder_ / "result.json")), found()) << "the file by itself";
}

TEST_F(CheckFolder, refuses_a_file_of_another_kind) {
  const fs::path file = folder_ / "notes.txt";
  write_file_atomically(file, "no JSON at all\n");
  try {
    static_cast<void>(check(file));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_EQ(
        error.what(),
        file.string() + ": not JSON (a result.json, its folder, or a folder of such folders)");
  }
}

TEST_F(CheckFolder, finds_what_the_schema_refuses) {
  std::string text = read_file(folder_ / "result.json");
  text.replace(text.find("\"batch\": 16"), 11, "\"batch\": \"x\"");
  write_file_atomically(folder_ / "result.json", text);
  EXPECT_NE(found().find("schema: protocol.batch: "), std::string::npos) << found();
}

TEST_F(CheckFolder, finds_a_changed_a_missing_and_an_outside_artifact) {
  std::ofstream(folder_ / "events.mlog", std::ios::app) << "\n";
  EXPECT_TRUE(starts(found(), "artifacts: it was changed")) << found();
  fs::remove(folder_ / "events.mlog");
  EXPECT_TRUE(starts(found(), "artifacts: the result lists it")) << found();
  Result result = full_result();
  result.artifacts = {{"../other.json", sha256_of("x")}};
  write_result(folder_ / "result.json", result);
  write_report();
  EXPECT_TRUE(starts(found(), "artifacts: its path leaves")) << found();
}

TEST_F(CheckFolder, names_weights_that_were_left_out_and_finds_weights_that_were_changed) {
  for (const char* name : {"weights.safetensors", "ema.safetensors"}) {
    Result result = full_result();
    result.artifacts = {{name, sha256_of("trained")}};
    write_result(folder_ / "result.json", result);
    write_report();
    const fs::path weights = folder_ / name;
    EXPECT_EQ(found(), "");
    EXPECT_EQ(absent_weights(folder_), std::vector<fs::path>{weights});
    std::ofstream(weights) << "trained";
    EXPECT_EQ(found(), "");
    EXPECT_TRUE(absent_weights(folder_).empty());
    std::ofstream(weights) << "other";
    EXPECT_TRUE(starts(found(), "artifacts: it was changed")) << found();
  }
}

TEST_F(CheckFolder, says_what_lies_where_a_file_should_be) {
  const fs::path weights = folder_ / "weights.safetensors";
  Result result = full_result();
  result.artifacts = {{weights.filename().string(), sha256_of("trained")}};
  write_result(folder_ / "result.json", result);
  write_report();
  fs::create_symlink("nowhere", weights);
  EXPECT_EQ(found(), "") << "a store of files leaves such a link in place of what was not fetched";
  fs::remove(weights);
  ASSERT_EQ(mkfifo(weights.c_str(), 0600), 0);
  EXPECT_EQ(found(), "artifacts: the result lists it and it is a pipe\n");
  fs::remove(weights);
  make_folder(weights);
  EXPECT_EQ(found(), "artifacts: the result lists it and it is a folder\n");
  fs::remove(weights);
  fs::remove(folder_ / "report.md");
  EXPECT_EQ(found(), "");
  fs::create_symlink("nowhere", folder_ / "report.md");
  EXPECT_NE(found().find("cannot be read: a link to nothing"), std::string::npos) << found();
}

TEST_F(CheckFolder, passes_over_no_file_of_the_programs_that_cannot_be_read_or_is_empty) {
  const std::map<std::string, std::function<void(const fs::path&)>> odd = {
      {"a link to nothing", [](const fs::path& at) { fs::create_symlink("nowhere", at); }},
      {"a pipe", [](const fs::path& at) { ASSERT_EQ(mkfifo(at.c_str(), 0600), 0); }},
      {"a folder", [](const fs::path& at) { make_folder(at); }},
      {"symbolic links", [](const fs::path& at) { fs::create_symlink(at.filename(), at); }},
      {"it is empty", [](const fs::path& at) { write_file_atomically(at, ""); }},
      {"Permission denied", [](const fs::path& at) {
         write_file_atomically(at, "{}");
         fs::permissions(at, fs::perms::none);
       }}};
  for (const char* folder : {"profile", "plots", "distances"}) make_folder(folder_ / folder);
  for (const char* name :
       {"insight.json", "report.html", "suite.json", "quality.json", "quality.md", "sweep.md",
        "predict.md", "predict.json", "profile/profile.json", "profile/profile.md",
        "profile/trace.json.gz", "profile/memory_timeline.json", "plots/loss.svg",
        "distances/fid.json"}) {
    const fs::path file = folder_ / name;
    for (const auto& [words, make] : odd) {
      make(file);
      std::string found;
      {
        const test::PlainUserGuard guard;
        for (const Finding& one : check(folder_)) {
          if (one.file == file.string()) found += one.words;
        }
      }
      EXPECT_NE(found.find(words), std::string::npos)
          << name << ": " << words << " expected, and found: " << found;
      fs::remove_all(file);
    }
  }
  EXPECT_EQ(found(), "");
}

TEST_F(CheckFolder, finds_events_that_nobody_lists_and_that_are_a_link_to_nothing) {
  Result result = full_result();
  result.artifacts.clear();
  write_result(folder_ / "result.json", result);
  write_report();
  EXPECT_EQ(found(), "");
  fs::remove(folder_ / "events.mlog");
  EXPECT_EQ(found(), "") << "a result may be kept alone";
  fs::create_symlink("nowhere", folder_ / "events.mlog");
  EXPECT_NE(found().find("cannot be read: a link to nothing"), std::string::npos) << found();
}

TEST_F(CheckFolder, finds_events_out_of_order_and_malformed) {
  EventWriter(folder_ / "events.mlog", false, [] { return 1; }).start("init");
  EXPECT_NE(found().find("events: init_start has no stop"), std::string::npos) << found();
  std::ofstream(folder_ / "events.mlog", std::ios::app) << ":::MLLOG {}\n";
  EXPECT_NE(found().find("events: "), std::string::npos);
  EXPECT_NE(found().find("events.mlog:2: keys"), std::string::npos) << found();
}

TEST_F(CheckFolder, finds_a_report_of_another_run_or_of_none) {
  write_report("00000000000000bb");
  EXPECT_EQ(found(), "report: it belongs to run 00000000000000bb\n");
  write_file_atomically(folder_ / "report.md", "# Report\n");
  EXPECT_EQ(found(), "report: it names no run and no result\n");
}

TEST_F(CheckFolder, finds_a_report_whose_text_was_changed_under_its_own_mark) {
  const std::string report = read_file(folder_ / "report.md");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = report;
    text.replace(text.find(from), from.size(), to);
    write_file_atomically(folder_ / "report.md", text);
    return found();
  };
  EXPECT_TRUE(starts(changed("# PASS", "# FAIL"), "report: it was changed after it was rendered"));
  EXPECT_NE(changed("| images/s ", "| images/h ").find("line "), std::string::npos);
  EXPECT_TRUE(starts(changed("\n", "\n\nPlots were left out: all is well.\n"), "report: "));
  write_file_atomically(folder_ / "report.md", report + "P.S.\n");
  EXPECT_TRUE(starts(found(), "report: it was changed")) << found();
  write_file_atomically(folder_ / "report.md", report.substr(0, report.size() - 1));
  EXPECT_TRUE(starts(found(), "report: it was changed")) << found();
}

TEST_F(CheckFolder, takes_a_report_with_its_plots_or_with_gnuplots_reason_for_none) {
  const fs::path file = folder_ / "result.json";
  const Result result = read_result(file);
  Plots plots;
  for (const PlotSource& source : plot_sources(result)) {
    plots.links.push_back({source.title, "plots/" + source.name + ".svg"});
    for (const auto& [ending, text] :
         {std::pair(".svg", std::string("<svg/>")), std::pair(".dat", source.data),
          std::pair(".gp", source.script)}) {
      make_folder(folder_ / "plots");
      write_file_atomically(folder_ / "plots" / (source.name + ending), text);
    }
  }
  const auto write = [&] {
    write_file_atomically(folder_ / "report.md",
                          render_report(result, sha256_of_file(file), plots));
  };
  write();
  EXPECT_EQ(found(), "");
  plots.links.pop_back();
  plots.left_out = "gnuplot failed (run it to see why)";
  write();
  EXPECT_EQ(found(), "");
  plots.left_out = "";
  write();
  EXPECT_TRUE(starts(found(), "report: it was changed")) << "a plot is missing without a reason";
}

TEST_F(CheckFolder, finds_every_file_that_a_page_refers_to_and_that_is_not_there) {
  const fs::path suite = folder_ / "suites" / "one";
  const fs::path run = suite / "gmm16@cpu" / "none";
  make_folder(run);
  write_run_folder(run, full_result());
  write_suite(suite, {"smoke", {"gmm16@cpu/none"}, {}});
  write_suite_report(suite);
  make_folder(run / "profile");
  write_file_atomically(run / "profile" / "profile.md", "[the trace](trace.json.gz)\n");
  write_file_atomically(run / "profile" / "trace.json.gz", "");
  write_file_atomically(suite / "report.html",
                        "<!doctype html>\n<a href=\"gmm16@cpu/none/report.html\">none</a>\n");
  write_file_atomically(run / "report.html", "<!doctype html>\n");
  const auto names = [&] {
    std::string all;
    for (const Finding& one : check(suite.parent_path())) {
      if (one.rule == "pages") all += fs::relative(one.file, suite).string() + "\n";
    }
    return all;
  };
  const std::string none = "gmm16@cpu/none/";
  EXPECT_EQ(names(), "");
  for (const char* name : {"profile/trace.json.gz", "report.html", "report.md"}) {
    fs::remove(run / name);
    EXPECT_NE(names().find(none + name), std::string::npos) << name << " in " << names();
  }
}

TEST_F(CheckFolder, finds_a_plot_that_the_report_shows_and_that_was_deleted) {
  make_folder(folder_ / "plots");
  const PlotSource source = plot_sources(full_result()).front();
  const std::string picture = "plots/" + source.name + ".svg";
  const fs::path file = folder_ / "result.json";
  Plots plots;
  plots.left_out = "gnuplot failed (run it to see why)";
  plots.links.push_back({source.title, picture});
  write_file_atomically(folder_ / "report.md",
                        render_report(read_result(file), sha256_of_file(file), plots));
  write_file_atomically(folder_ / picture, "<svg/>");
  write_file_atomically(folder_ / "plots" / (source.name + ".dat"), source.data);
  write_file_atomically(folder_ / "plots" / (source.name + ".gp"), source.script);
  EXPECT_EQ(found(), "");
  for (const char* ending : {".svg", ".dat", ".gp"}) {
    const fs::path part = folder_ / "plots" / (source.name + ending);
    const std::string text = read_file(part);
    fs::remove(part);
    EXPECT_EQ(found(), "pages: report.md refers to it and it is not there\n") << ending;
    make_folder(part);
    EXPECT_NE(found().find("a folder"), std::string::npos) << ending << ": " << found();
    fs::remove(part);
    write_file_atomically(part, text);
  }
}

TEST_F(CheckFolder, finds_lists_that_lost_what_belongs_to_others_and_renders_the_rest) {
  const auto lose = [&](const std::function<void(Result&)>& change) {
    Result result = test::result_under_echo();
    result.quality = full_result().quality;
    change(result);
    EXPECT_NE(listed(check_values(result, "r.json")), "");
    EXPECT_NE(render_report(result, sha256_of("r"), {}), "");
    EXPECT_FALSE(plot_sources(result).empty());
    write_result(folder_ / "result.json", result);
    EXPECT_NE(found(), "");
  };
  lose([](Result& r) { r.memory_mode.certificate.reference_sha256.clear(); });
  lose([](Result& r) { r.memory_mode.certificate.sha256.clear(); });
  lose([](Result& r) { r.memory.timeline[1].by_category.clear(); });
  lose([](Result& r) { r.quality.evaluations.back().optimal_per_timestep.resize(1); });
}

TEST_F(CheckFolder, finds_the_data_of_a_plot_that_were_changed) {
  make_folder(folder_ / "plots");
  const PlotSource source = plot_sources(full_result()).front();
  write_file_atomically(folder_ / "plots" / (source.name + ".dat"), source.data);
  EXPECT_EQ(found(), "");
  write_file_atomically(folder_ / "plots" / (source.name + ".dat"), source.data + "1 1\n");
  EXPECT_EQ(found(), "plots: it is not what the result says\n");
}

TEST_F(CheckFolder, finds_a_suites_report_whose_text_was_changed) {
  const fs::path suite = folder_ / "suite";
  make_folder(suite / "a");
  write_result(suite / "a" / "result.json", minimal_result());
  write_suite(suite, {"smoke", {"a"}, {}});
  (void)rewrite_report(suite);
  EXPECT_EQ(listed(check(suite)), "");
  std::string text = read_file(suite / "report.md");
  text.replace(text.find("CUSTOM"), 6, "PASS");
  write_file_atomically(suite / "report.md", text);
  EXPECT_TRUE(starts(listed(check(suite)), "report: it was changed or is stale: line 1 is"));
}

TEST_F(CheckFolder, names_a_link_to_nothing_among_results) {
  make_folder(folder_ / "set" / "a");
  write_result(folder_ / "set" / "a" / "result.json", minimal_result());
  fs::create_symlink(folder_ / "unmounted", folder_ / "set" / "b");
  EXPECT_EQ(listed(check(folder_ / "set")), "lost: a link to nothing\n");
}

TEST_F(CheckFolder, without_a_result_is_bad_input) {
  fs::remove(folder_ / "result.json");
  try {
    (void)check(folder_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("it was begun and left no result"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace noisemark::reports
