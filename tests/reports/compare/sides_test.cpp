#include "reports/compare/sides.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/render/run_folder.h"
#include "reports/result/json_io.h"
#include "tests/reports/compare/runs.h"
#include "tests/reports/plain_user.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with the test.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(fs::path(::testing::TempDir()) / ("noisemark_sides_" + name)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void expect_refused(const std::string& path, const std::string& words) {
  try {
    (void)read_side(path);
    FAIL() << "accepted " << path;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Sides, are_read_from_a_result_its_report_its_folder_and_a_folder_of_folders) {
  const Folder folder("read");
  const fs::path run = folder.path() / "run";
  fs::create_directories(run);
  write_run_folder(run, test::full_result());
  for (const fs::path& path : {run / "result.json", run / "report.md", run, folder.path()}) {
    const Side side = read_side(path.string());
    ASSERT_EQ(side.runs.size(), 1U) << path;
    EXPECT_EQ(side.name, path.string());
    EXPECT_EQ(side.runs[0].result.run_id, test::full_result().run_id);
  }
}

TEST(Sides, a_report_of_another_result_is_refused) {
  const Folder folder("stale");
  write_run_folder(folder.path(), test::full_result());
  Result other = test::full_result();
  other.title = "another";
  write_result(folder.path() / "result.json", other);
  expect_refused((folder.path() / "report.md").string(), "not rendered from the result.json");
}

TEST(Sides, a_report_that_was_changed_under_its_own_mark_is_refused) {
  const Folder folder("doctored");
  write_run_folder(folder.path(), test::full_result());
  const fs::path report = folder.path() / "report.md";
  std::string text = read_file(report);
  text.replace(text.find("PASS"), 4, "FAIL");
  write_file_atomically(report, text);
  expect_refused(report.string(), "changed after it was rendered: line ");
}

TEST(Sides, with_several_damaged_results_are_refused_by_all_their_names) {
  const Folder folder("damaged");
  for (const char* run : {"base/1", "base/2", "new/1", "new/2"}) {
    write_run_folder(folder.path() / run, test::full_result());
    write_file_atomically(folder.path() / run / "result.json", "{");
  }
  const auto expect_all = [&](const std::vector<std::string>& runs, const auto& read) {
    try {
      (void)read();
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      for (const std::string& run : runs) {
        const std::string file = (folder.path() / run / "result.json").string();
        EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
      }
    }
  };
  const std::string base = (folder.path() / "base").string();
  const std::string candidate = (folder.path() / "new").string();
  const std::vector<std::string> all = {"base/1", "base/2", "new/1", "new/2"};
  expect_all(all, [&] { return read_sides(base, candidate); });
  expect_all(all, [&] { return read_runs({base, candidate}); });
}

TEST(Sides, of_one_place_are_refused_in_plain_words) {
  const Folder folder("same");
  write_run_folder(folder.path(), test::full_result());
  try {
    (void)read_sides(folder.path().string(), (folder.path() / ".").string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("BASE and NEW are both "), std::string::npos);
  }
}

TEST(Sides, without_a_baseline_ask_for_one) {
  const Folder folder("none");
  write_run_folder(folder.path() / "new", test::full_result());
  fs::create_directories(folder.path() / "empty");
  for (const char* base : {"empty", "absent"}) {
    try {
      (void)read_sides((folder.path() / base).string(), (folder.path() / "new").string());
      FAIL() << base;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBaselineNeeded) << base;
    }
  }
}

TEST(Sides, what_is_no_result_is_refused) {
  const Folder folder("bad");
  expect_refused(folder.path().string(), "");
  expect_refused((folder.path() / "absent.json").string(), "absent.json");
  write_file_atomically(folder.path() / "report.md", "# A page\n");
  expect_refused((folder.path() / "report.md").string(), "not the report of a run");
}

TEST(Sides, a_changed_or_cut_result_is_refused) {
  const Folder folder("edited");
  std::string text = to_json(test::full_result());
  write_file_atomically(folder.path() / "cut.json", text.substr(0, text.size() / 2));
  expect_refused((folder.path() / "cut.json").string(), "");
  text.replace(text.find("35746307"), 8, "35746308");
  write_file_atomically(folder.path() / "edited.json", text);
  expect_refused((folder.path() / "edited.json").string(), "checksum");
}

TEST(Sides, the_same_run_twice_is_refused) {
  const Folder folder("twice");
  for (const char* name : {"a", "b"}) {
    fs::create_directories(folder.path() / name);
    write_result(folder.path() / name / "result.json", test::full_result());
  }
  expect_refused(folder.path().string(), "the same run as");
}

TEST(Sides, of_which_one_run_is_there_twice_name_every_other_fault_too) {
  const Folder folder("twice_and_broken");
  const fs::path both = folder.path() / "both";
  for (const char* name : {"a", "b", "y", "z"}) {
    fs::create_directories(both / name);
    write_result(both / name / "result.json", test::full_result());
  }
  write_file_atomically(both / "b" / "result.json", "{");
  fs::create_directory_symlink("nowhere", both / "c");
  fs::create_directories(both / "d");
  write_file_atomically(both / "d" / "events.mlog", "");
  const auto expect_all_named = [&](const auto& read) {
    try {
      (void)read();
      FAIL() << "accepted";
    } catch (const Error& error) {
      const std::string words = error.what();
      for (const char* name :
           {"y: the same run as", "z: the same run as", "b", "c: a link", "d: it was begun"}) {
        EXPECT_NE(words.find((both / name).string()), std::string::npos) << name << ": " << words;
      }
    }
  };
  const std::string path = both.string();
  fs::create_directories(folder.path() / "copy");
  write_result(folder.path() / "copy" / "result.json", test::full_result());
  expect_all_named([&] { return read_side(path); });
  expect_all_named([&] { return read_side(path, Broken::kIsLost); });
  expect_all_named([&] { return read_runs({path}, Broken::kIsLost); });
  expect_all_named([&] { return read_runs({(folder.path() / "copy").string(), path}); });
  expect_all_named([&] { return read_sides(path, (folder.path() / "copy").string()); });
}

TEST(LostRuns, of_one_reason_are_one_where_they_are_many_but_those_that_were_skipped_apart) {
  std::vector<LostRun> lost;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    lost.push_back({name, "cannot run here: no GPU", lost.size() % 2 != 0});
  }
  const std::vector<LostRun> by = by_reason(lost);
  ASSERT_EQ(by.size(), 2U);
  EXPECT_EQ(by[0].name, "4 runs (a, c, e and 1 more)");
  EXPECT_FALSE(by[0].skipped);
  EXPECT_EQ(by[1].name, "4 runs (b, d, f and 1 more)");
  EXPECT_TRUE(by[1].skipped);
  lost.resize(6);
  EXPECT_EQ(by_reason(lost).size(), 6U);
}

TEST(Sides, a_run_on_both_sides_is_refused_beside_what_is_lost) {
  Side base{"base", {{"base/a", test::full_result()}}};
  base.lost.push_back({"b", "it left no result"});
  try {
    (void)pair_runs(base, {"new", {{"new/a", test::full_result()}}});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is on both sides; base/b: it left no result"),
              std::string::npos)
        << error.what();
  }
}

TEST(Sides, a_time_of_creation_that_is_none_is_refused) {
  const Folder folder("time");
  Result result = test::full_result();
  result.created_utc = "yesterday";
  write_result(folder.path() / "result.json", result);
  expect_refused(folder.path().string(), "created_utc");
}

TEST(Sides, a_time_that_is_on_no_calendar_is_refused) {
  const Folder folder("calendar");
  for (const char* time : {"2026-13-01T00:00:00Z", "2026-01-32T00:00:00Z", "2026-01-01T24:00:00Z",
                           "2026-02-31T00:00:00Z", "2027-02-29T00:00:00Z", "2026-00-01T00:00:00Z",
                           "2026-01-01T00:60:00Z"}) {
    Result result = test::full_result();
    result.created_utc = time;
    write_result(folder.path() / "result.json", result);
    expect_refused(folder.path().string(), "created_utc");
  }
}

TEST(Sides, runs_of_the_future_are_refused) {
  const Folder folder("future");
  const auto written = [&](const char* name, const std::string& id, std::chrono::seconds ahead) {
    const fs::path run = folder.path() / name;
    fs::create_directories(run);
    Result result = test::full_result();
    result.run_id = id;
    result.created_utc = utc_now(ahead);
    write_result(run / "result.json", result);
    return run.string();
  };
  using std::chrono::minutes;
  const std::string base = written("base", "00000000000000b0", minutes(-10));
  EXPECT_NO_THROW((void)read_sides(base, written("soon", "00000000000000b1", minutes(2))));
  try {
    (void)read_sides(base, written("late", "00000000000000b2", minutes(20)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("which has not come yet"), std::string::npos);
  }
  EXPECT_THROW((void)read_runs({folder.path().string()}), Error) << "for a history or a study";
}

/// A result in a folder of its own.
void write_run(const fs::path& folder, const std::string& id) {
  fs::create_directories(folder);
  Result result = test::full_result();
  result.run_id = id;
  write_result(folder / "result.json", result);
}

TEST(Sides, of_a_suite_hold_only_the_results_of_its_runs_and_name_the_others) {
  const Folder folder("suite");
  write_run(folder.path() / "a", "00000000000000a0");
  write_run(folder.path() / "stale", "00000000000000a1");
  write_run(folder.path() / "foreign", "00000000000000a2");
  Suite suite{"smoke", {"a", "stale", "died", "gpu"}, {}};
  suite.earlier["stale"] = sha256_of_file(folder.path() / "stale" / "result.json");
  suite.not_run["gpu"] = "cannot run here";
  suite.causes["gpu"] = "no CUDA device";
  write_suite(folder.path(), suite);
  const Side side = read_side(folder.path().string());
  ASSERT_EQ(side.runs.size(), 1U);
  EXPECT_EQ(side.runs[0].result.run_id, "00000000000000a0");
  ASSERT_EQ(side.lost.size(), 3U);
  EXPECT_EQ(side.lost[0].name, "died");
  EXPECT_EQ(side.lost[0].why, "it left no result");
  EXPECT_TRUE(side.lost[1].skipped);
  EXPECT_EQ(side.lost[1].why, "cannot run here: no CUDA device");
  EXPECT_EQ(side.lost[2].why, "it left no result: the one there is of an earlier suite");
  ASSERT_EQ(side.left_out.size(), 1U);
  EXPECT_EQ(side.left_out[0], "foreign: of no run of the suite that lies there");
}

TEST(Sides, hold_no_replacement_of_a_run) {
  const Folder folder("replacement");
  write_run(folder.path() / "1", "00000000000000a0");
  for (const char* name : {"replacement", "replacing", "arriving"}) {
    write_run(folder.path() / "1" / name, "00000000000000a1");
  }
  fs::create_directories(folder.path() / "2" / "replacement");
  write_file_atomically(folder.path() / "2" / "events.mlog", "");
  const Side side = read_side(folder.path().string());
  ASSERT_EQ(side.runs.size(), 1U);
  EXPECT_EQ(side.runs[0].result.run_id, "00000000000000a0");
  ASSERT_EQ(side.lost.size(), 1U);
  EXPECT_EQ(side.lost[0].name, "2");
}

TEST(Sides, name_runs_that_were_begun_and_left_no_result) {
  const Folder folder("begun");
  write_run(folder.path() / "1", "00000000000000a0");
  fs::create_directories(folder.path() / "1" / "plots");
  fs::create_directories(folder.path() / "2");
  write_file_atomically(folder.path() / "2" / "events.mlog", "");
  fs::create_directories(folder.path() / "3");
  const Side side = read_side(folder.path().string());
  ASSERT_EQ(side.lost.size(), 2U) << "a run's own folders are no runs";
  EXPECT_EQ(side.lost[0].name, "2");
  EXPECT_EQ(side.lost[0].why, "it was begun and left no result");
  EXPECT_EQ(side.lost[1].why, "its folder is empty");
}

TEST(Sides, of_which_a_part_cannot_be_read_name_it_and_hold_the_rest) {
  const Folder folder("unreadable");
  write_run(folder.path() / "1", "00000000000000a0");
  write_run(folder.path() / "2", "00000000000000a1");
  write_run(folder.path() / "3", "00000000000000a2");
  write_run(folder.path() / "listed", "00000000000000a3");
  fs::create_directories(folder.path() / "1" / "plots");
  fs::permissions(folder.path() / "1" / "plots", fs::perms::none);
  fs::permissions(folder.path() / "2", fs::perms::none);
  fs::permissions(folder.path() / "3" / "result.json", fs::perms::none);
  fs::permissions(folder.path() / "listed", fs::perms::owner_read | fs::perms::others_read);
  const test::PlainUserGuard guard;
  const std::string denied = "cannot be read: Permission denied";
  const auto expect_the_rest = [&](const std::string& path) {
    const Side side = read_side(path);
    ASSERT_EQ(side.runs.size(), 1U);
    std::map<std::string, std::string> lost;
    for (const LostRun& run : side.lost) lost[run.name] = run.why;
    ASSERT_EQ(lost.size(), 3U);
    EXPECT_EQ(lost["2"], denied);
    EXPECT_EQ(lost["3"], denied);
    EXPECT_NE(lost["listed"].find(denied), std::string::npos) << lost["listed"];
    EXPECT_EQ(side.left_out, std::vector<std::string>{"1/plots: " + denied});
  };
  expect_the_rest(folder.path().string());
  expect_the_rest(folder.path().string() + "/");
  expect_refused((folder.path() / "2").string(), "cannot be read");
  expect_refused((folder.path() / "3").string(), "cannot be read");
}

TEST(Sides, of_a_suite_of_which_a_part_cannot_be_read_name_its_runs) {
  const Folder folder("unreadable_suite");
  write_run(folder.path() / "a" / "1", "00000000000000a0");
  write_run(folder.path() / "b" / "1", "00000000000000a1");
  write_suite(folder.path(), {"smoke", {"a/1", "b/1"}, {}});
  fs::permissions(folder.path() / "b", fs::perms::none);
  const test::PlainUserGuard guard;
  const Side side = read_side(folder.path().string());
  EXPECT_EQ(side.runs.size(), 1U);
  ASSERT_EQ(side.lost.size(), 2U);
  EXPECT_EQ(side.lost[1].name, "b/1");
}

TEST(LostRuns, of_one_reason_are_one_where_they_are_many) {
  std::vector<LostRun> runs{{"a", "not begun"}, {"b", "it left no result"}};
  for (const char* name : {"c", "d", "e"}) runs.push_back({name, "not begun"});
  const std::vector<LostRun> found = by_reason(runs);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "4 runs (a, c, d and 1 more)");
  EXPECT_EQ(found[0].why, "not begun");
  EXPECT_EQ(found[1].name, "b");
  runs.pop_back();
  EXPECT_EQ(by_reason(runs).size(), 4U) << "three are named";
}

TEST(Sides, runs_are_paired_by_seed_and_then_by_time) {
  const auto seeds = [](Result& r, size_t i) { r.seeds.base = i % 2; };
  const Side base = test::side("a", {1, 2, 3, 4}, seeds);
  Side candidate = test::side("b", {10, 20, 30, 40}, seeds);
  std::swap(candidate.runs[0], candidate.runs[3]);
  const Cells cells = pair_runs(base, candidate);
  ASSERT_EQ(cells.both.size(), 1U);
  std::vector<std::pair<double, double>> rates;
  for (const auto& [a, b] : cells.both[0].pairs) {
    EXPECT_EQ(a->result.seeds.base, b->result.seeds.base);
    rates.emplace_back(*a->result.metrics[0].value, *b->result.metrics[0].value);
  }
  const std::vector<std::pair<double, double>> expected = {{1, 10}, {3, 30}, {2, 20}, {4, 40}};
  EXPECT_EQ(rates, expected);
}

TEST(Sides, what_has_no_partner_is_listed) {
  const Side base = test::side("a", {1, 2, 3}, [](Result& r, size_t i) {
    r.seeds.base = i;
    if (i == 2) r.identity.mode = "echo";
  });
  const Side candidate = test::side("b", {1, 2, 3}, [](Result& r, size_t i) {
    r.seeds.base = i + 1;
    if (i == 2) r.identity.precision = "bf16";
  });
  const Cells cells = pair_runs(base, candidate);
  ASSERT_EQ(cells.both.size(), 1U);
  EXPECT_EQ(cells.both[0].pairs.size(), 1U);
  ASSERT_EQ(cells.only_base.size(), 1U);
  EXPECT_NE(cells.only_base[0].find("mode echo"), std::string::npos);
  ASSERT_EQ(cells.only_candidate.size(), 1U);
  EXPECT_NE(cells.only_candidate[0].find("bf16"), std::string::npos);
  ASSERT_EQ(cells.unpaired.size(), 2U);
  EXPECT_NE(cells.unpaired[0].find("of BASE, seed 0"), std::string::npos) << cells.unpaired[0];
  EXPECT_NE(cells.unpaired[1].find("of NEW, seed 2"), std::string::npos) << cells.unpaired[1];
}

TEST(Sides, cells_without_a_common_seed_are_named) {
  const Side base =
      test::side("a", {1, 1, 1}, [](Result& r, size_t i) { r.seeds.base = i == 0 ? 11 : 1; });
  const Side candidate = test::side("b", {1}, [](Result& r, size_t) { r.seeds.base = 2; });
  const Cells cells = pair_runs(base, candidate);
  EXPECT_TRUE(cells.both.empty());
  ASSERT_EQ(cells.without_pairs.size(), 1U);
  EXPECT_EQ(cells.without_pairs[0].base_seeds, "1, 11");
  EXPECT_EQ(cells.without_pairs[0].candidate_seeds, "2");
}

TEST(Sides, a_run_on_both_sides_is_refused) {
  const Side base = test::side("a", {1});
  EXPECT_THROW((void)pair_runs(base, base), Error);
}

TEST(Sides, cells_of_two_gpus_of_a_machine_are_one_and_peers_are_others) {
  Identity id = test::full_result().identity;
  id.device = "cuda:0";
  const std::string first = cell_name(id);
  id.device = "cuda:1";
  EXPECT_EQ(cell_name(id), first);
  id.framework = "peer:eager";
  EXPECT_EQ(cell_name(id), first + ", peer:eager");
}

TEST(Sides, cells_of_changed_definitions_say_so_whichever_side_changed_them) {
  const auto customize = [](Result& result, size_t) {
    result.identity.custom = true;
    result.identity.overrides = {"train.steps=60"};
  };
  const std::string official = cell_name(test::full_result().identity);
  for (const bool base : {true, false}) {
    const Side a = test::side("a", {1}, base ? test::Change(customize) : test::Change());
    const Side b = test::side("b", {1}, base ? test::Change() : test::Change(customize));
    EXPECT_EQ(pair_runs(a, b).both.at(0).name, official + ", custom train.steps=60") << base;
  }
}

std::vector<std::string> names_of(const std::vector<FieldDifference>& differences) {
  std::vector<std::string> names;
  for (const FieldDifference& one : differences) names.push_back(one.field);
  return names;
}

TEST(DifferingFields, are_those_of_other_values_and_those_that_one_side_lacks) {
  const Strings a = {{"both", "1"}, {"clocks", "default"}, {"same", "x"}};
  const Strings b = {{"both", "2"}, {"later", "y"}, {"same", "x"}};
  const std::vector<FieldDifference> found = differing_fields(a, b, "cell");
  EXPECT_EQ(names_of(found), (std::vector<std::string>{"both", "clocks", "later"}));
  EXPECT_EQ(found[0].cell, "cell");
  EXPECT_EQ(found[0].base, "1");
  EXPECT_EQ(found[0].candidate, "2");
  EXPECT_EQ(found[1].candidate, "") << "unknown";
  EXPECT_EQ(found[2].base, "") << "unknown";
  EXPECT_EQ(names_of(differing_fields(b, a)), names_of(found));
  EXPECT_TRUE(differing_fields(a, a).empty());
}

TEST(DifferingFields, include_one_that_is_empty_on_one_side_and_lacking_on_the_other) {
  EXPECT_EQ(differing_fields({{"x", ""}}, {}).size(), 1U);
}

TEST(DifferingFields, are_named_by_the_first_and_how_many_more) {
  EXPECT_EQ(first_of({}), "");
  EXPECT_EQ(first_of({{"", "a", "", ""}}), "a");
  EXPECT_EQ(first_of({{"", "a", "", ""}, {"", "b", "", ""}, {"", "c", "", ""}}), "a and 2 more");
}

TEST(IdentityFields, include_the_clocks_policy_and_leave_out_what_belongs_to_the_seed) {
  Result result = test::full_result();
  result.identity.hardware["gpu_clocks"] = "default";
  const Strings fields = identity_fields(result);
  EXPECT_EQ(fields.at("identity.hardware.gpu_clocks"), "default");
  Result other = result;
  other.seeds.base += 1;
  other.provenance.init_weights_sha256 = std::string(64, 'a');
  EXPECT_EQ(identity_fields(other), fields);
}

TEST(IdentityDifferences, look_at_initial_weights_of_equal_seeds_alone) {
  const auto differences = [](uint64_t seed) {
    const Side base = test::side("a", {1});
    const Side candidate = test::side("b", {1}, [=](Result& r, size_t) {
      r.seeds.base = seed;
      r.provenance.init_weights_sha256 = std::string(64, 'a');
    });
    return identity_differences({"cell", {{&base.runs[0], &candidate.runs[0]}}});
  };
  EXPECT_TRUE(differences(8).empty());
  EXPECT_EQ(names_of(differences(7)),
            std::vector<std::string>{"provenance.init_weights_sha256 (seed 7)"});
}

TEST(SameWork, changes_with_definition_data_settings_hardware_and_weights) {
  const Result result = test::full_result();
  const auto differs = [&](void (*change)(Result&)) {
    Result other = result;
    change(other);
    return same_work(other) != same_work(result);
  };
  EXPECT_TRUE(differs([](Result& r) { r.identity.definition_sha256 = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.version += 1; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.mode = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.threads += 1; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.ranks = 2; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.hardware["cpu"] = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.data = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.seeds.base += 1; }));
  EXPECT_TRUE(differs([](Result& r) { r.provenance.init_weights_sha256 = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.protocol.deterministic = !r.protocol.deterministic; }));
}

TEST(SameWork, does_not_change_with_what_was_left_out_of_a_data_folder) {
  const Result result = test::full_result();
  Result other = result;
  other.provenance.data.push_back(
      {"1 entry is not used: a.txt", std::string(64, 'a'), 0, false, 0});
  EXPECT_EQ(same_work(other), same_work(result));
  other.provenance.data.back().pictures = 1;
  EXPECT_NE(same_work(other), same_work(result));
}

TEST(SameWork, does_not_change_with_the_build) {
  const Result result = test::full_result();
  Result other = result;
  other.identity.software["libtorch"] = "other";
  other.provenance.git_commit = "other";
  other.provenance.binary_sha256 = "other";
  EXPECT_EQ(same_work(other), same_work(result));
  EXPECT_NE(about_build(other), about_build(result));
}

}  // namespace

}  // namespace noisemark::reports
