#include "reports/render/run_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "memopt/accounting/owner.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/sha256.h"
#include "reports/render/check.h"
#include "reports/render/plot.h"
#include "reports/render/table.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

// PATH is where gnuplot is looked for; without it the system's default places are.
class [[nodiscard]] PathGuard {
 public:
  explicit PathGuard(const std::string& path) {
    if (const char* before = std::getenv("PATH")) before_ = before;
    setenv("PATH", path.c_str(), 1);
  }
  ~PathGuard() { setenv("PATH", before_.c_str(), 1); }
  PathGuard(const PathGuard&) = delete;
  PathGuard& operator=(const PathGuard&) = delete;

 private:
  std::string before_;
};

class WriteReport : public testing::Test {
 protected:
  WriteReport()
      : folder_(fs::path(testing::TempDir()) / ("noisemark_write_" + std::to_string(getpid()))) {}
  ~WriteReport() override { fs::remove_all(folder_); }

  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) {
        all[entry.path().lexically_relative(folder_).string()] = read_file(entry.path());
      }
    }
    return all;
  }
  static Result result() {
    Result result = test::full_result();
    result.artifacts.clear();
    return result;
  }
  bool drawn() const { return fs::exists(folder_ / "plots" / "loss.svg"); }
  std::string report() const { return read_file(folder_ / "report.md"); }

  fs::path folder_;
};

TEST_F(WriteReport, leaves_a_folder_that_passes_every_check) {
  write_run_folder(folder_, result());
  EXPECT_TRUE(check(folder_).empty());
  EXPECT_TRUE(fs::exists(folder_ / "plots" / "memory.dat"));
  EXPECT_TRUE(fs::exists(folder_ / "plots" / "memory.gp"));
}

TEST_F(WriteReport, renders_again_byte_for_byte) {
  write_run_folder(folder_, result());
  const auto before = files();
  fs::remove(folder_ / "report.md");
  fs::remove_all(folder_ / "plots");
  rewrite_report(folder_);
  EXPECT_EQ(files(), before);
}

TEST_F(WriteReport, without_gnuplot_the_report_says_so_and_nothing_fails) {
  make_folder(folder_);
  const PathGuard nowhere((folder_ / "no-programs").string());
  write_run_folder(folder_, result());
  EXPECT_FALSE(drawn());
  EXPECT_NE(report().find("Plots were left out: gnuplot is not installed."), std::string::npos);
  EXPECT_EQ(report().find("!["), std::string::npos);
  EXPECT_TRUE(check(folder_).empty());
}

TEST_F(WriteReport, without_gnuplot_plots_of_the_same_data_are_kept_and_of_other_data_are_not) {
  write_run_folder(folder_, result());
  if (!drawn()) GTEST_SKIP() << "gnuplot is not installed";
  const auto before = files();
  const PathGuard nowhere((folder_ / "no-programs").string());
  rewrite_report(folder_);
  EXPECT_EQ(files(), before);
  Result other = result();
  other.samples.loss[5] += 1;
  write_run_folder(folder_, other);
  EXPECT_FALSE(drawn()) << "a picture of another run must not stay";
  EXPECT_TRUE(fs::exists(folder_ / "plots" / "memory.svg"));
}

TEST_F(WriteReport, says_when_gnuplot_fails) {
  const fs::path programs = folder_ / "programs";
  make_folder(programs);
  std::ofstream(programs / "gnuplot") << "#!/bin/sh\nexit 3\n";
  fs::permissions(programs / "gnuplot", fs::perms::owner_all);
  const PathGuard broken(programs.string());
  const Plots plots = write_plots(folder_, result());
  EXPECT_TRUE(plots.links.empty());
  EXPECT_NE(plots.left_out.find("gnuplot failed"), std::string::npos) << plots.left_out;
}

TEST_F(WriteReport, leaves_out_a_picture_whose_end_the_disk_did_not_take) {
  const fs::path programs = folder_ / "programs";
  make_folder(programs);
  const auto draw = [&](const std::string& picture) {
    std::ofstream(programs / "gnuplot")
        << "#!/bin/sh\nprintf '" + picture + "' > \"${2%.gp}.svg\"\n";
    fs::permissions(programs / "gnuplot", fs::perms::owner_all);
    const PathGuard fake(programs.string());
    return write_plots(folder_, result());
  };
  const Plots half = draw("<svg><path");
  EXPECT_TRUE(half.links.empty());
  EXPECT_NE(half.left_out.find("no whole picture"), std::string::npos) << half.left_out;
  EXPECT_FALSE(drawn());
  const Plots whole = draw("<svg></svg>\\n");
  EXPECT_FALSE(whole.links.empty());
  EXPECT_EQ(whole.left_out, "");
  EXPECT_TRUE(drawn());
}

TEST_F(WriteReport, puts_no_result_in_place_whose_report_cannot_be_written) {
  make_folder(folder_ / "report.md" / "in the way");
  try {
    write_run_folder(folder_, result());
    ADD_FAILURE() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCannotWrite);
    EXPECT_NE(std::string(error.what()).find("report.md"), std::string::npos) << error.what();
  }
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "report.md" || name == "plots") << name;
  }
  write_result_alone(folder_, result());
  EXPECT_TRUE(fs::exists(folder_ / "result.json"));
}

TEST_F(WriteReport, a_result_alone_does_not_keep_the_report_of_another) {
  write_run_folder(folder_, result());
  Result failed = result();
  failed.exit = {static_cast<int>(ExitCode::kCannotWrite), "cannot write", {"no room"}};
  write_result_alone(folder_, failed);
  EXPECT_FALSE(fs::exists(folder_ / "report.md"));
  EXPECT_NE(read_file(folder_ / "result.json").find("no room"), std::string::npos);
}

TEST_F(WriteReport, draws_only_what_there_are_samples_for) {
  EXPECT_EQ(plot_sources(test::minimal_result()).size(), 0U);
  Result only_evaluations = test::minimal_result();
  only_evaluations.quality = test::full_result().quality;
  ASSERT_EQ(plot_sources(only_evaluations).size(), 1U);
  EXPECT_EQ(plot_sources(only_evaluations)[0].name, "loss");
  const Plots plots = write_plots(folder_, only_evaluations);
  EXPECT_TRUE(plots.links.size() == 1 || plots.left_out == "gnuplot is not installed")
      << plots.left_out;
}

// If a field changed, run NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_test
TEST(FolderOfARun, has_a_page_of_the_fields_of_its_files) {
  test::expect_published(NOISEMARK_RENDER_ROOM, folder_documents());
}

TEST(MemoryPlot, gives_every_owner_of_memory_a_colour_of_its_own) {
  MemorySection memory;
  for (const memopt::Owner owner : memopt::all_owners()) {
    memory.categories.emplace_back(memopt::owner_name(owner));
  }
  const std::vector<int64_t> one_byte_each(memory.categories.size() + 1, 1);
  memory.timeline = {{0, one_byte_each}, {1, one_byte_each}};
  memory.peak_bytes = static_cast<int64_t>(one_byte_each.size());
  std::map<std::string, int> owners_of_colour = {{"#888888", 1}};  // gray for all without a colour
  const std::string script = memory_plot(memory).script;
  const std::regex curve("fillcolor rgb '([^']*)'[^,]*title '([^']*)'");
  for (std::sregex_iterator found(script.begin(), script.end(), curve), end; found != end;
       ++found) {
    EXPECT_EQ(++owners_of_colour[(*found)[1]], 1) << (*found)[2];
  }
  EXPECT_EQ(owners_of_colour.size(), memory.categories.size() + 2) << script;
}

TEST_F(WriteReport, a_step_without_a_loss_is_left_out_of_its_plot) {
  Result gaps = result();
  gaps.samples.loss[2] = std::nan("");
  const auto data_of = [](const Result& one) { return plot_sources(one).at(1).data; };
  const std::string whole = data_of(result());
  const std::string data = data_of(gaps);
  EXPECT_EQ(plot_sources(gaps).at(1).name, "loss");
  EXPECT_EQ(std::count(data.begin(), data.end(), '\n') + 1,
            std::count(whole.begin(), whole.end(), '\n'));
  EXPECT_EQ(data.find("nan"), std::string::npos);
  EXPECT_NE(data.find("\n1 "), std::string::npos);
  EXPECT_EQ(data.find("\n2 "), std::string::npos);
  const Plots plots = write_plots(folder_, gaps);
  EXPECT_TRUE(plots.left_out.empty() || plots.left_out == "gnuplot is not installed")
      << plots.left_out;
  gaps.samples.loss.assign(gaps.samples.loss.size(), std::nan(""));
  gaps.quality.evaluations.clear();
  EXPECT_NE(plot_sources(gaps).at(1).name, "loss") << "nothing of it could be drawn";
}

TEST_F(WriteReport, long_runs_are_drawn_as_bins) {
  Result long_run = result();
  long_run.samples.step_s.assign(25000, 0.1);
  long_run.samples.step_s[77] = 0.5;
  const auto sources = plot_sources(long_run);
  const std::string& data = sources.at(0).data;
  EXPECT_EQ(std::count(data.begin(), data.end(), '\n'), 1001);
  EXPECT_NE(data.find(" 500\n"), std::string::npos) << "the slow step must stay visible";
  const Plots plots = write_plots(folder_, long_run);
  EXPECT_TRUE(plots.left_out.empty() || plots.left_out == "gnuplot is not installed")
      << plots.left_out;
}

TEST_F(WriteReport, a_suite_shows_its_results_and_the_runs_that_left_none) {
  const std::vector<fs::path> folders{folder_ / "a@cpu" / "none", folder_ / "b@cpu" / "none"};
  write_suite(folder_, {"smoke", {"a@cpu/none", "b@cpu/none"}, {}});
  write_run_folder(folders[0], result());
  write_suite_report(folder_);
  EXPECT_NE(report().find("# FAIL: smoke\n\n1 of 2 runs passed, 1 failed."), std::string::npos)
      << report();
  EXPECT_NE(report().find("`b@cpu/none`: it left no result"), std::string::npos);
  EXPECT_NE(report().find("[a@cpu/none](a@cpu/none/report.md)"), std::string::npos);
  write_run_folder(folders[1], result());
  EXPECT_EQ(rewrite_report(folder_),
            (std::vector<fs::path>{folders[0] / "report.md", folders[1] / "report.md",
                                   folder_ / "report.md"}));
  EXPECT_NE(report().find("# PASS: smoke\n\n2 of 2 runs passed."), std::string::npos) << report();
  const auto before = files();
  rewrite_report(folder_);
  EXPECT_EQ(files(), before);
  EXPECT_TRUE(check(folder_).empty());
}

TEST_F(WriteReport, a_suite_whose_list_is_gone_is_named) {
  write_suite(folder_, {"smoke", {"a"}, {}});
  write_run_folder(folder_ / "a", result());
  write_suite_report(folder_);
  ASSERT_TRUE(check(folder_).empty());
  fs::remove(folder_ / "suite.json");
  std::vector<Finding> lost;
  (void)rewrite_report(folder_, &lost);
  const std::vector<Finding> checked = check(folder_);
  for (const std::vector<Finding>& findings : {checked, lost}) {
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings[0].file, (folder_ / "suite.json").string());
    EXPECT_EQ(findings[0].words, "it is not there, and the report.md beside it is a suite's");
  }
  write_file_atomically(folder_ / "report.md", "# PASS: mine\n\n1 of 1 runs passed.\n");
  EXPECT_TRUE(check(folder_).empty()) << "nobody knows that it was a suite";
}

TEST_F(WriteReport, a_suite_never_shows_a_result_that_lay_there_before_it) {
  const fs::path file = folder_ / "a@cpu" / "none" / "result.json";
  write_run_folder(file.parent_path(), result());
  write_suite(folder_, {"smoke", {"a@cpu/none"}, {{"a@cpu/none", sha256_of_file(file)}}});
  write_suite_report(folder_);
  EXPECT_NE(report().find("# FAIL: smoke\n\n0 of 1 runs passed, 1 failed."), std::string::npos)
      << report();
  EXPECT_NE(report().find("`a@cpu/none`: it left no result"), std::string::npos);
  Result passed = result();
  passed.run_id = "00000000000000bb";
  write_run_folder(file.parent_path(), passed);
  rewrite_report(folder_);
  EXPECT_NE(report().find("# PASS: smoke\n\n1 of 1 runs passed."), std::string::npos) << report();
}

TEST_F(WriteReport, of_a_suite_each_run_has_its_own_result_or_a_reason_for_none) {
  for (const char* name : {"own", "stale", "unrun"}) write_run_folder(folder_ / name, result());
  Suite suite{"smoke", {"own", "stale", "died", "unrun"}, {}, {{"unrun", "cannot run here"}}};
  suite.earlier["own"] = "another digest";
  suite.earlier["stale"] = sha256_of_file(folder_ / "stale" / "result.json");
  const std::vector<SuiteRun> runs = suite_runs(folder_, suite);
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs[0].lost, "");
  EXPECT_EQ(runs[1].lost, "it left no result: the one there is of an earlier suite");
  EXPECT_EQ(runs[2].lost, "it left no result");
  EXPECT_EQ(runs[3].lost, "cannot run here");
  for (const SuiteRun& run : runs) EXPECT_EQ(run.not_run, run.name == "unrun");
}

TEST_F(WriteReport, of_a_suite_a_result_of_another_run_is_none_and_is_named_once) {
  for (const char* name : {"own", "taken"}) write_run_folder(folder_ / name, result());
  Suite suite{"smoke", {"own", "taken", "died"}, {}};
  suite.not_made = {"taken", "died"};
  write_suite(folder_, suite);
  const std::vector<SuiteRun> runs = suite_runs(folder_, *read_suite(folder_));
  EXPECT_EQ(runs[0].lost, "");
  EXPECT_EQ(runs[1].lost, "it left no result: the one there is of another run");
  EXPECT_EQ(runs[2].lost, "it left no result");
  EXPECT_TRUE(runs[1].taken && !runs[0].taken && !runs[2].taken);
  std::vector<Finding> lost;
  EXPECT_EQ(result_folders(folder_, &lost), std::vector<std::filesystem::path>{folder_ / "own"});
  ASSERT_EQ(lost.size(), 2U);
  EXPECT_EQ(lost[0].file, (folder_ / "taken" / "result.json").string());
}

TEST_F(WriteReport, a_suite_says_how_the_run_ended_that_replaced_no_earlier_result) {
  const fs::path run = folder_ / "a";
  write_run_folder(run, result());
  write_suite(folder_, {"smoke", {"a"}, {{"a", sha256_of_file(run / "result.json")}}});
  Result failed = result();
  failed.exit = {74, "cannot write", {"the disk is full"}};
  write_run_folder(run / kReplacementFolder, failed);
  const std::string words =
      "cannot write: the disk is full (replacement/ has its result, and the one there is of an "
      "earlier suite)";
  EXPECT_EQ(suite_runs(folder_, *read_suite(folder_)).at(0).lost, words);
  write_suite_report(folder_);
  EXPECT_NE(report().find("# FAIL: smoke\n\n0 of 1 runs passed, 1 failed."), std::string::npos)
      << report();
  EXPECT_NE(report().find("- `a`: cannot write: the disk is full"), std::string::npos) << report();
}

TEST_F(WriteReport, a_suite_is_read_as_it_was_written_and_nothing_else_is_taken_for_one) {
  make_folder(folder_);
  EXPECT_FALSE(read_suite(folder_));
  write_suite(folder_, {"smoke", {"a", "b"}, {{"b", "digest"}}});
  const auto suite = read_suite(folder_);
  ASSERT_TRUE(suite);
  EXPECT_EQ(suite->title, "smoke");
  EXPECT_EQ(suite->names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(suite->earlier, (std::map<std::string, std::string>{{"b", "digest"}}));
  for (
      const char* text :
      {"", "[]", "{}", R"({"schema": {"name": "noisemark.suite", "version": "1.0.0"}})",
       R"({"schema": "other", "title": "a", "folders": []})",
       R"({"schema": {"name": "noisemark.suite", "version": "1.0.0"}, "title": "a", "folders": 7})",
       R"({"schema": {"name": "noisemark.suite", "version": "1.0.0"}, "title": "a", )"
       R"("folders": ["a", "a"]})",
       R"({"schema": {"name": "noisemark.suite", "version": "1.0.0"}, "title": "a", )"
       R"("folders": ["../a"]})",
       R"({"schema": {"name": "noisemark.suite", "version": "1.0.0"}, "title": "a", )"
       R"("folders": ["/a"]})",
       R"({"schema": {"name": "noisemark.suite", "version": "1.0.0"}, "title": "a", )"
       R"("folders": ["a"], "folders": []})"}) {
    std::ofstream(folder_ / "suite.json") << text;
    try {
      (void)read_suite(folder_);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_EQ(std::string(error.what()).find("cannot use"), std::string::npos) << error.what();
    }
  }
}

TEST_F(WriteReport, a_run_that_was_not_run_makes_its_suite_incomplete_and_not_failed) {
  write_suite(folder_,
              {"cpu", {"a@cpu/none", "b@cpu/none"}, {}, {{"b@cpu/none", "cannot run here"}}});
  write_run_folder(folder_ / "a@cpu" / "none", result());
  write_run_folder(folder_ / "b@cpu" / "none", result());  // an earlier command left it
  write_suite_report(folder_);
  EXPECT_NE(report().find("# INCOMPLETE: cpu\n\n1 of 2 runs passed, 1 cannot run here.\n\n"
                          "- `b@cpu/none`: cannot run here\n"),
            std::string::npos)
      << report();
  EXPECT_EQ(report().find("(b@cpu/none/report.md)"), std::string::npos) << report();
  const auto before = files();
  rewrite_report(folder_);
  EXPECT_EQ(files(), before);
}

TEST_F(WriteReport, a_run_that_cannot_run_here_says_in_its_suite_what_is_missing) {
  Suite suite{"gpu", {"a@gpu/none"}, {}, {{"a@gpu/none", "cannot run here"}}};
  suite.causes["a@gpu/none"] = "no CUDA device";
  write_suite(folder_, suite);
  write_suite_report(folder_);
  EXPECT_NE(report().find("# INCOMPLETE: gpu\n\n0 of 1 runs passed, 1 cannot run here.\n\n"
                          "- `a@gpu/none`: cannot run here: no CUDA device\n"),
            std::string::npos)
      << report();
}

TEST(SuiteReport, is_custom_where_no_gate_of_the_definition_applied) {
  const NamedResult custom{"a", test::minimal_result()};
  const NamedResult passed{"b", test::full_result()};
  const auto begins = [](const std::vector<NamedResult>& results, const std::string& text) {
    return render_suite_report("smoke", results, {}).starts_with(text);
  };
  EXPECT_TRUE(
      begins({custom, custom}, "# CUSTOM: smoke\n\n2 of 2 runs ended, 2 custom (no gate failed, "));
  EXPECT_TRUE(begins({custom, passed},
                     "# CUSTOM: smoke\n\n1 of 2 runs passed, 1 custom (no gate failed, "));
  EXPECT_TRUE(begins({passed, passed}, "# PASS: smoke\n\n2 of 2 runs passed.\n"));
}

TEST(SuiteReport, of_several_seeds_under_several_modes_says_where_their_quality_is_judged) {
  NamedResult none{"a", test::full_result()};
  NamedResult mode = none;
  mode.result.identity.mode = "another";
  NamedResult seed = mode;
  seed.result.seeds.base += 1;
  const auto points_to_it = [](const std::vector<NamedResult>& results) {
    return render_suite_report("smoke", results, {}).find("`quality.md`") != std::string::npos;
  };
  EXPECT_TRUE(points_to_it({none, mode, seed}));
  EXPECT_FALSE(points_to_it({none, mode})) << "one seed";
  EXPECT_FALSE(points_to_it({mode, seed})) << "one mode";
  seed.result.identity.benchmark = "another";
  EXPECT_FALSE(points_to_it({none, mode, seed})) << "of another benchmark";
}

TEST(SuiteReport, of_no_run_at_all_never_passes) {
  EXPECT_TRUE(render_suite_report("smoke", {}, {}).starts_with("# INCOMPLETE: smoke\n"));
}

TEST_F(WriteReport, refuses_to_render_a_changed_result) {
  write_run_folder(folder_, result());
  std::string text = read_file(folder_ / "result.json");
  text.replace(text.find("\"batch\": 16"), 11, "\"batch\": 17");
  write_file_atomically(folder_ / "result.json", text);
  EXPECT_THROW(rewrite_report(folder_), Error);
}

TEST_F(WriteReport, a_folder_that_cannot_be_made_is_an_error_of_its_own) {
  std::ofstream(folder_.string()) << "a file";
  try {
    write_run_folder(folder_, result());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCannotWrite);
  }
}

TEST_F(WriteReport, tables_take_files_folders_and_suites) {
  write_run_folder(folder_ / "x", result());
  write_run_folder(folder_ / "y", result());
  const std::string one = table_markdown({(folder_ / "x" / "result.json").string()});
  const std::string two = table_markdown({folder_.string()});
  EXPECT_EQ(std::count(two.begin(), two.end(), '\n') - std::count(one.begin(), one.end(), '\n'), 1);
  EXPECT_EQ(two.find("## Utilization"), std::string::npos);
  EXPECT_NE(table_markdown({folder_.string()}, nullptr, Sections::kAll).find("## Utilization"),
            std::string::npos);
  EXPECT_EQ(one.find("verdict"), std::string::npos) << one;
  EXPECT_EQ(one.find("PASS"), std::string::npos) << one;
  EXPECT_THROW((void)table_markdown({(folder_ / "none").string()}), Error);
}

TEST_F(WriteReport, a_table_names_the_status_of_a_run_that_did_not_end_as_it_should) {
  Result full = result();
  full.exit = {74, "cannot write", {"x/weights: No space left on device"}};
  write_run_folder(folder_ / "x", full);
  const std::string table = table_markdown({folder_.string()});
  EXPECT_NE(table.find("`: cannot write; x/weights: No space left on device"), std::string::npos)
      << table;
}

TEST_F(WriteReport, a_table_says_how_a_run_ended_that_has_no_last_loss) {
  Result stopped = result();
  stopped.exit = {130, "interrupted", {"interrupted after step 5 of 60"}};
  stopped.quality.evaluations.resize(1);
  stopped.quality.evaluations[0].step = 0;
  stopped.quality.evaluations[0].loss = 0.987654;
  stopped.metrics = derive_metrics(stopped);
  write_run_folder(folder_ / "x", stopped);
  const std::string table = table_markdown({folder_.string()});
  EXPECT_EQ(table.find("0.987654"), std::string::npos) << table;
  EXPECT_NE(table.find(fmt::format(
                "\nResults that are not whole:\n\n- `{}`: interrupted after step 5 of "
                "60; no val loss: the last evaluation was at the start, and the training ended "
                "after step {}\n",
                (folder_ / "x").string(), stopped.protocol.steps)),
            std::string::npos)
      << table;
}

TEST(SideBySide, begins_with_verdict_and_figures_and_says_once_what_all_rows_have_alike) {
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const Result none = test::full_result();
  Result echo = none;
  echo.identity.mode = "echo";
  const std::string named =
      side_by_side({{"x/none-fp32", none}, {"x/echo-fp32", echo}}, Verdicts::kShown);
  EXPECT_TRUE(has(named,
                  "Every row has benchmark ho-cifar10@cpu, framework noisemark, baseline plain, "
                  "precision fp32, device cpu, 2 threads.\n\n| result "))
      << named;
  EXPECT_TRUE(has(named, "| x/echo-fp32 | PASS ")) << named;
  EXPECT_FALSE(has(named, "| mode")) << "the names of the rows say it\n" << named;
  const std::string unnamed = side_by_side({{"a", none}, {"b", echo}}, Verdicts::kShown);
  EXPECT_TRUE(has(unnamed, "| mode |")) << unnamed;
}

TEST(SideBySide, ratios_are_to_the_first_of_the_same_definition) {
  Result slow = test::full_result();
  slow.metrics[0].value = *slow.metrics[0].value / 2;
  slow.metrics[0].ci95.reset();
  Result other = test::full_result();
  other.identity.definition_sha256 = sha256_of("another");
  const std::string text =
      side_by_side({{"a", test::full_result()}, {"b", slow}, {"c", other}}, Verdicts::kLeftOut);
  const auto line = [&](const std::string& name) {
    const size_t at = text.find("| " + name + " ");
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_NE(line("a").find(" 1.000 |"), std::string::npos) << text;
  EXPECT_NE(line("b").find(" 0.500 |"), std::string::npos) << text;
  EXPECT_EQ(line("c").find(" 1.000 |"), std::string::npos) << "nothing is divided by it\n" << text;
}

TEST(SideBySide, and_modes_tell_changed_definitions_apart) {
  const auto custom = [](const std::vector<std::string>& overrides, const std::string& definition) {
    Result result = test::full_result();
    result.identity.mode = "echo";
    result.identity.custom = true;
    result.identity.overrides = overrides;
    result.identity.definition_sha256 = sha256_of(definition);
    return result;
  };
  const std::vector<NamedResult> results = {{"a", test::full_result()},
                                            {"b", custom({"train.steps=60"}, "1")},
                                            {"c", custom({"train.steps=80"}, "2")},
                                            {"d", custom({}, "3")},
                                            {"e", custom({}, "4")}};
  for (const std::string& text : {side_by_side(results, Verdicts::kLeftOut), mode_table(results)}) {
    for (const std::string& name :
         {std::string("cifar10@cpu "), std::string("cifar10@cpu (custom train.steps=60) "),
          std::string("cifar10@cpu (custom train.steps=80) "),
          "cifar10@cpu (custom) " + sha256_of("3").substr(0, 12),
          "cifar10@cpu (custom) " + sha256_of("4").substr(0, 12)}) {
      EXPECT_NE(text.find(name), std::string::npos) << name << "\n" << text;
    }
  }
}

TEST(SideBySide, bytes_of_a_peer_are_those_of_its_metrics_because_it_knows_no_owners) {
  Result peer = test::full_result();
  peer.identity.framework = "peer:compiled-budget=0.5";
  peer.memory.measured = false;
  peer.metrics.push_back({"peak_bytes",
                          "bytes",
                          Direction::kLower,
                          3.0 * (1 << 20),
                          "",
                          "exact",
                          {},
                          1,
                          "the profiler"});
  peer.metrics.push_back(
      {"saved_bytes", "bytes", Direction::kLower, {}, "something outlived it", "", {}, 0, ""});
  EXPECT_NE(side_by_side({{"peer", peer}}, Verdicts::kLeftOut)
                .find("| 3.00 MiB |                  \u2013 |"),
            std::string::npos)
      << side_by_side({{"peer", peer}}, Verdicts::kLeftOut);
}

}  // namespace
}  // namespace noisemark::reports
