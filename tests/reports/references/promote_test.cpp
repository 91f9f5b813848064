#include "reports/references/promote.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/sha256.h"
#include "reports/compare/compare.h"
#include "reports/compare/comparison.h"
#include "reports/render/check.h"
#include "reports/result/events.h"
#include "reports/result/json_io.h"
#include "tests/reports/compare/runs.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using test::Change;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Folders of runs, and an empty one for baselines.
class Promote : public testing::Test {
 protected:
  Promote() : folder_(fs::path(testing::TempDir()) / ("promote_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(into());
  }
  ~Promote() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path into() const { return folder_ / "results"; }

  /// A folder of `count` runs that passed.
  std::string runs(const std::string& name, size_t count, const Change& change = {}) const {
    const Side side = test::side(name, test::rates_around(16, count), [&](Result& r, size_t i) {
      r.artifacts.clear();
      r.provenance.git_diff_sha256.clear();
      r.metrics[0].ci95.reset();  // it belonged to another rate
      r.identity.hardware = {{"cpu_model", "Intel(R) Xeon(R) Processor @ 2.00GHz"}};
      if (change) change(r, i);
    });
    for (size_t i = 0; i < count; ++i) {
      const fs::path run = folder_ / name / std::to_string(i);
      fs::create_directories(run);
      write_result(run / "result.json", side.runs[i].result);
    }
    return (folder_ / name).string();
  }
  [[nodiscard]] Promotion promote(const std::string& path, bool force = false) const {
    return promote_baseline({path}, {into(), "", force});
  }
  /// The folder where the runs go.
  [[nodiscard]] fs::path place() const {
    return into() / "intel-xeon-processor-2-threads" / "ho-cifar10@cpu" / "none-plain-fp32-cpu";
  }
  static void expect_unreadable(const fs::path& path, const std::function<void()>& read) {
    try {
      read();
      ADD_FAILURE() << "accepted " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
      EXPECT_TRUE(holds(error.what(), path.string() + ": cannot be read: ")) << error.what();
    }
  }
  void expect_refused(const std::string& path, ExitCode code, const std::string& words) const {
    try {
      (void)promote(path);
      ADD_FAILURE() << "accepted " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_TRUE(holds(error.what(), words)) << error.what();
    }
    EXPECT_TRUE(fs::is_empty(into())) << "nothing may be written when something is refused";
  }

 private:
  fs::path folder_;
};

TEST_F(Promote, keeps_whole_results_byte_for_byte_with_a_page_for_the_reviewer) {
  const std::string from = runs("a", 3);
  const Promotion promotion = promote(from);
  ASSERT_EQ(promotion.written.size(), 4U);
  const std::string text = read_file(from + "/1/result.json");
  const std::string run_id = from_json(text, "").run_id;
  EXPECT_EQ(read_file(place() / run_id / "result.json"), text);
  const std::string page = read_file(place() / "baseline.md");
  EXPECT_TRUE(page.starts_with("# Stored baseline: ho-cifar10@cpu, mode none")) << page;
  EXPECT_TRUE(holds(page, run_id)) << page;
  EXPECT_TRUE(holds(promotion.text, page));
  EXPECT_TRUE(holds(show_baselines(into().string()), page));
}

TEST_F(Promote, keeps_the_events_that_a_result_lists_so_that_check_finds_nothing) {
  // The shortest list in which nothing is amiss.
  const fs::path events = into().parent_path() / "events.mlog";
  {
    EventWriter writer(events, false, [] { return 1; });
    writer.start("init");
    writer.stop("init");
    writer.start("run");
    writer.stop("run");
  }
  const std::string from = runs("a", 3, [&](Result& result, size_t) {
    result.artifacts = {{"events.mlog", sha256_of(read_file(events))}};
  });
  for (const char* run : {"0", "1", "2"}) fs::copy(events, fs::path(from) / run);
  const Promotion promotion = promote(from);
  EXPECT_EQ(promotion.written.size(), 7U) << "three results with their events, and the page";
  for (const auto& entry : fs::directory_iterator(place())) {
    if (!entry.is_directory()) continue;
    EXPECT_EQ(read_file(entry.path() / "events.mlog"), read_file(events));
    EXPECT_TRUE(check(entry.path()).empty()) << check(entry.path()).front().words;
  }
}

TEST_F(Promote, makes_what_compare_takes_as_a_base) {
  (void)promote(runs("a", 6));
  const auto [base, candidate] = read_sides(into().string(), runs("b", 6));
  EXPECT_EQ(exit_code_of(compare(base, candidate).verdict), ExitCode::kPass);
}

TEST_F(Promote, is_proposed_where_new_is_better_beyond_the_margin_and_base_a_baseline) {
  const std::string a = runs("a", 8);
  (void)promote(a);
  const auto next = [&](const std::string& base, const std::string& candidate) {
    const auto [of_base, of_candidate] = read_sides(base, candidate);
    const Comparison comparison = compare(of_base, of_candidate);
    EXPECT_EQ(exit_code_of(comparison), ExitCode::kPass);
    return next_step(comparison);
  };
  const auto times = [](double factor) {
    return [=](Result& r, size_t) { *r.metrics[0].value *= factor; };
  };
  const std::string faster = runs("much faster", 8, times(1.2));
  const std::string command = "noisemark baseline promote '" + faster + "' --into " +
                              into().string() +
                              " --hardware intel-xeon-processor-2-threads --force";
  EXPECT_EQ(next(into().string(), faster),
            "NEW is better, beyond the margin. To make it the stored baseline, run `" + command +
                "`; then review the change and commit it.\n");
  EXPECT_EQ(next(a, faster), "There is nothing to do.\n") << "BASE is no baseline";
  EXPECT_EQ(next(into().string(), runs("twin", 8)), "There is nothing to do.\n");
  EXPECT_EQ(next(into().string(), runs("hardly", 8, times(1.02))), "There is nothing to do.\n");
  const std::string smaller =
      runs("smaller", 8, [](Result& r, size_t) { *test::metric(r, "saved_bytes").value -= 64; });
  EXPECT_TRUE(holds(next(into().string(), smaller), "baseline promote"));
  (void)promote_baseline({faster}, {into(), "intel-xeon-processor-2-threads", true});
  EXPECT_EQ(next(into().string(), runs("as fast", 8, times(1.2))), "There is nothing to do.\n");
}

TEST_F(Promote, refuses_fewer_than_three_runs) {
  expect_refused(runs("a", 2), ExitCode::kBadInput, "2 runs (at least 3)");
}

TEST_F(Promote, refuses_runs_of_several_identities_and_names_what_differs) {
  expect_refused(runs("a", 3,
                      [](Result& r, size_t i) {
                        if (i == 2) r.identity.software["libtorch"] = "2.12.0";
                      }),
                 ExitCode::kBadInput, "identity.software.libtorch");
}

TEST_F(Promote, refuses_failed_custom_and_unofficial_runs) {
  expect_refused(runs("failed", 3,
                      [](Result& r, size_t) {
                        r.exit = {1, "failed", {"val_loss"}};
                        r.gates.back().verdict = Verdict::kFail;
                        r.gates.back().value = 0.2;
                      }),
                 ExitCode::kBadInput, "it did not pass");
  expect_refused(runs("custom", 3,
                      [](Result& r, size_t) {
                        r.identity.custom = true;
                        r.gates.back().verdict = Verdict::kNotApplied;
                        r.exit = {0, "custom", {}};
                      }),
                 ExitCode::kBadInput, "its definition was changed");
  expect_refused(runs("unofficial", 3,
                      [](Result& r, size_t) {
                        r.identity.data = "unofficial";
                        for (DataFile& file : r.provenance.data) file.verified = false;
                      }),
                 ExitCode::kBadInput, "unofficial data");
}

TEST_F(Promote, needs_a_baseline_that_is_not_missing_null_or_zero) {
  expect_refused(runs("zero", 3, [](Result& r, size_t) { r.metrics[1].value = 0; }),
                 ExitCode::kBaselineNeeded, "val_loss: 0 makes no stored baseline");
  const Change none = [](Result& r, size_t) {
    r.metrics[1].value.reset();
    r.metrics[1].missing_reason = "no evaluation";
  };
  expect_refused(runs("null", 3, none), ExitCode::kBaselineNeeded,
                 "no run has a value of val_loss");
  expect_refused(runs("some", 3,
                      [&](Result& r, size_t i) {
                        if (i == 1) none(r, i);
                      }),
                 ExitCode::kBadInput, "2 of 3 runs have a value");
}

TEST_F(Promote, refuses_bytes_that_differ_between_runs_of_one_seed) {
  expect_refused(runs("a", 3,
                      [](Result& r, size_t i) {
                        if (i == 2) *test::metric(r, "saved_bytes").value += 64;
                      }),
                 ExitCode::kBadInput, "a figure without noise");
}

TEST_F(Promote, refuses_a_result_that_was_changed_or_is_given_twice) {
  const std::string from = runs("a", 3);
  try {
    (void)promote_baseline({from, from + "/0"}, {into(), "", false});
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(holds(error.what(), "the same run as")) << error.what();
  }
  std::string text = read_file(from + "/0/result.json");
  text.replace(text.find("35746307"), 8, "35746308");
  write_file_atomically(from + "/0/result.json", text);
  expect_refused(from, ExitCode::kBadInput, "checksum");
}

TEST_F(Promote, flags_changes_that_are_in_no_commit) {
  EXPECT_FALSE(holds(promote(runs("clean", 3)).text, "To know"));
  const std::string dirty = runs("dirty", 3, [](Result& r, size_t i) {
    r.provenance.git_dirty = i == 1;
    r.provenance.git_diff_sha256 = i == 1 ? sha256_of("diff") : "";
    if (i == 2) r.provenance.git_commit = std::string(40, 'f');
  });
  const std::string text = promote(dirty, true).text;
  EXPECT_TRUE(holds(text, "**To know**: 1 of 3 runs were built with changes")) << text;
  EXPECT_TRUE(holds(text, "several commits")) << text;
}

TEST_F(Promote, overwrites_nothing_without_force_and_replaces_the_whole_cell_with_it) {
  (void)promote(runs("a", 4));
  const std::string newer = runs("b", 3);
  try {
    (void)promote(newer);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_TRUE(holds(error.what(), "--force")) << error.what();
  }
  const Promotion promotion = promote(newer, true);
  EXPECT_EQ(promotion.removed.size(), 4U);
  EXPECT_EQ(read_side(into().string()).runs.size(), 3U);
}

// A limit on the size of files is the one way to fill up a disk that needs no rights.
TEST_F(Promote, on_a_full_disk_leaves_what_was_there_and_nothing_of_the_new_runs) {
  const auto files = [&] {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(into())) {
      if (entry.is_regular_file()) found[entry.path().string()] = read_file(entry.path());
    }
    return found;
  };
  const auto expect_full = [&](const std::string& newer) {
    const auto before = files();
    rlimit unlimited{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    const rlimit small{4096, unlimited.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    try {
      (void)promote(newer, true);
      ADD_FAILURE() << "written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCannotWrite) << error.what();
      EXPECT_TRUE(holds(error.what(), "File too large")) << error.what();
    }
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(files(), before);
  };
  expect_full(runs("a", 3));
  (void)promote(runs("a", 3));
  expect_full(runs("b", 4));
}

TEST_F(Promote, says_what_so_many_runs_can_judge) {
  EXPECT_TRUE(holds(promote(runs("a", 3)).text, "with 3 runs: 6 are needed"))
      << "2 gates at 0.05 need 2^-6 * 2";
  EXPECT_TRUE(holds(promote(runs("b", 6), true).text, "6 runs are enough for 2 gates"));
}

TEST_F(Promote, shows_nothing_where_there_is_none) {
  try {
    (void)show_baselines(into().string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBaselineNeeded);
  }
}

TEST_F(Promote, shows_no_page_of_which_the_runs_are_gone) {
  (void)promote(runs("a", 3));
  for (const auto& entry : fs::directory_iterator(place())) {
    if (entry.is_directory()) fs::remove(entry.path() / "result.json");
  }
  try {
    (void)show_baselines(into().string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBaselineNeeded) << error.what();
    EXPECT_TRUE(holds(error.what(), "a page without its runs")) << error.what();
  }
}

TEST_F(Promote, shows_baselines_beside_links_that_lead_nowhere) {
  (void)promote(runs("a", 3));
  fs::create_symlink("loop", into() / "loop");
  fs::create_symlink("loop", place() / "loop");
  fs::create_symlink("absent", place() / "dangling");
  EXPECT_TRUE(
      holds(show_baselines(into().string()), "# Stored baseline: ho-cifar10@cpu, mode none"));
}

TEST_F(Promote, refuses_to_show_a_path_that_cannot_be_followed) {
  const fs::path loop = into() / "loop";
  fs::create_symlink("loop", loop);
  expect_unreadable(loop, [&] { (void)show_baselines(loop.string()); });
  expect_unreadable(loop, [&] { (void)promote_baseline({runs("a", 3)}, {loop, "", false}); });
}

TEST_F(Promote, refuses_to_show_a_folder_that_cannot_be_read) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads every folder";
  (void)promote(runs("a", 3));
  const fs::path locked = into() / "intel-xeon-processor-2-threads" / "locked";
  fs::create_directory(locked);
  fs::permissions(locked, fs::perms::none);
  expect_unreadable(locked, [&] { (void)show_baselines(into().string()); });
  fs::permissions(locked, fs::perms::owner_all);
}

TEST_F(Promote, refuses_a_place_that_is_a_file) {
  const std::string from = runs("a", 3);
  fs::create_directories(place().parent_path());
  write_file_atomically(place(), "");
  for (const bool force : {false, true}) {
    expect_unreadable(place(), [&] { (void)promote(from, force); });
  }
}

TEST_F(Promote, refuses_a_stored_baseline_that_is_a_link_or_has_one) {
  const std::string from = runs("a", 3);
  (void)promote(from);
  const fs::path run = place() / from_json(read_file(from + "/1/result.json"), "").run_id;
  const fs::path elsewhere = into().parent_path() / "elsewhere";
  for (const fs::path& linked : {place(), place() / "baseline.md", run, run / "result.json"}) {
    fs::rename(linked, elsewhere);
    for (const char* target : {elsewhere.c_str(), "absent"}) {
      fs::create_symlink(target, linked);
      try {
        (void)promote(from, true);
        ADD_FAILURE() << "replaced " << linked;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
        EXPECT_TRUE(holds(error.what(), linked.string() + ": is a link")) << error.what();
      }
      EXPECT_TRUE(fs::is_symlink(linked)) << linked;
      fs::remove(linked);
    }
    fs::rename(elsewhere, linked);
  }
  EXPECT_EQ(read_side(into().string()).runs.size(), 3U);
}

TEST_F(Promote, that_was_killed_is_named_until_the_next_removes_what_it_left) {
  (void)promote(runs("a", 3));
  const std::string newer = runs("b", 4);
  // A promotion that is killed between two of its renames leaves this.
  fs::path staged = place();
  staged += ".new";
  fs::copy(place(), staged, fs::copy_options::recursive);
  fs::create_directory(place() / "emptied");
  fs::create_directory(place() / "begun");
  write_file_atomically(place() / "begun" / "events.mlog", "");
  try {
    (void)show_baselines(into().string());
    ADD_FAILURE() << "shown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBaselineNeeded);
    EXPECT_TRUE(holds(error.what(), staged.string() + ": a promotion was ended before"))
        << error.what();
  }
  const auto [base, candidate] = read_sides(into().string(), newer);
  EXPECT_EQ(base.runs.size(), 3U) << "nothing is read twice";
  const Comparison comparison = compare(base, candidate);
  EXPECT_EQ(exit_code_of(comparison.verdict), ExitCode::kBaselineNeeded);
  (void)promote(newer, true);
  EXPECT_FALSE(fs::exists(staged));
  const Side side = read_side(into().string());
  EXPECT_EQ(side.runs.size(), 4U);
  EXPECT_TRUE(side.lost.empty()) << side.lost.front().name << ": " << side.lost.front().why;
}

TEST_F(Promote, needs_the_folder_of_the_baselines) {
  EXPECT_THROW((void)promote_baseline({runs("a", 3)}, {into() / "absent", "", false}), Error);
}

TEST(BaselineFolders, have_names_that_file_systems_take) {
  Identity id = test::full_result().identity;
  id.hardware = {{"gpu_model", "NVIDIA H200"}, {"cpu_model", "AMD EPYC(TM) 9654 96-Core"}};
  id.mode = "budget:2GiB,error=0.01";
  id.framework = "peer:eager";
  EXPECT_EQ(hardware_folder(id), "amd-epyc-9654-96-core-2-threads");
  EXPECT_EQ(cell_folder(id), "ho-cifar10@cpu/budget-2GiB,error=0.01-plain-fp32-cpu-peer-eager");
  id.device = "cuda:1";
  EXPECT_EQ(hardware_folder(id), "nvidia-h200");
  id.hardware.clear();
  EXPECT_EQ(hardware_folder(id), "unknown");
}

}  // namespace
}  // namespace noisemark::reports
