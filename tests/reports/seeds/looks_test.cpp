// Looking at seeds, adding some and looking again: the level, and what is kept of it.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/result/gate.h"
#include "reports/seeds/judge.h"
#include "reports/seeds/study.h"
#include "reports/seeds/study_files.h"
#include "tests/reports/seeds/seeds.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using test::losses_of_none;
using test::seeds_of;
using test::together;
using test::worse_by;

/// Three seeds of none, and of "dpr8" whose p is between 0.025 and 0.05: a standard error of
/// 0.0029 / sqrt(3), so t = 3.55 of 2 degrees below the margin of log(1.01).
Side between_the_levels() {
  const auto none = losses_of_none(3);
  return together({seeds_of("none", none), seeds_of("dpr8", worse_by(0.004, 0.0029, none))});
}

TEST(Looks, have_equal_shares_of_alpha) {
  EXPECT_DOUBLE_EQ(alpha_of_a_look(0.05, 1), 0.05);
  EXPECT_DOUBLE_EQ(alpha_of_a_look(0.05, 2), 0.025);
  EXPECT_THROW((void)alpha_of_a_look(0.05, 0), std::logic_error);
  EXPECT_DOUBLE_EQ(alpha_of_a_family(0.05, 2, {{"val_loss", {}}}, {}), 0.025);
  EXPECT_DOUBLE_EQ(alpha_of_a_family(0.05, 2, {}, {{"fid", 1, 2}}), 0.025);
  EXPECT_DOUBLE_EQ(alpha_of_a_family(0.05, 2, {{"val_loss", {}}}, {{"fid", 1, 2}}), 0.0125);
}

TEST(Looks, at_the_same_runs_are_one_and_at_more_or_fewer_of_them_another) {
  const std::vector<RunIds> earlier = {{"a", "b"}, {"a", "b", "c"}};
  EXPECT_EQ(next_look({"a", "b"}, 2, earlier).number, 1);
  EXPECT_EQ(next_look({"a", "b", "c"}, 2, earlier).number, 2);
  EXPECT_EQ(next_look({"a"}, 2, earlier).number, 3);
  EXPECT_TRUE(none_is_left(next_look({"a", "d"}, 2, earlier)));
  EXPECT_FALSE(none_is_left(next_look({"a", "d"}, 3, earlier)));
  const Looks others = next_look({"d", "e"}, 2, earlier);
  EXPECT_EQ(others.number, 1) << "another study";
  EXPECT_TRUE(others.taken.empty());
}

TEST(Looks, are_counted_once_and_not_beyond_those_declared) {
  Looks looks = next_look({"a", "b"}, 1, {});
  count_look({"a", "b"}, looks);
  count_look({"a", "b"}, looks);
  EXPECT_EQ(looks.taken, (std::vector<RunIds>{{"a", "b"}}));
  Looks spent = next_look({"a", "b", "c"}, 1, looks.taken);
  count_look({"a", "b", "c"}, spent);
  EXPECT_EQ(spent.taken.size(), 1U);
}

TEST(Looks, that_are_two_prove_less_each_than_one_would) {
  const QualityStudy one = judge_quality(between_the_levels(), {.looks = 1});
  EXPECT_GT(one.rows.front().p.value(), 0.025);
  EXPECT_EQ(one.verdict, QualityVerdict::kPass) << quality_markdown(one);
  const QualityStudy two = judge_quality(between_the_levels());
  EXPECT_EQ(two.looks.declared, 2);
  EXPECT_EQ(two.verdict, QualityVerdict::kInconclusive) << quality_markdown(two);
  EXPECT_GT(two.rows.front().interval->high, one.rows.front().interval->high);
  EXPECT_NE(quality_markdown(two).find("look 1 of 2 declared"), std::string::npos);
}

TEST(Looks, that_are_taken_leave_nothing_to_claim_but_bits_and_infinities) {
  const auto none = losses_of_none(4);
  const auto not_finite = [](Result& result, uint64_t seed) {
    if (seed != 1) return;
    result.gates = evaluate_gates(result, {}, {false, "loss at step 12"});
    result.exit = exit_of(result.gates, false);
  };
  const auto same_bits = [&](Result& result, uint64_t seed) {
    result.determinism = seeds_of("none", none)[seed].result.determinism;
  };
  const Side side =
      together({seeds_of("none", none), seeds_of("dpr16", worse_by(1e-4, 1e-4, none)),
                seeds_of("echo", none, same_bits), seeds_of("q2", worse_by(0.3, 1e-3, none)),
                seeds_of("q4", none, not_finite)});
  const RunIds all = run_ids_of(side);
  const QualityOptions options = {.ranges = {{"val_loss", 0.01, 1}},
                                  .earlier = {{all[0], all[1]}, {all[0], all[1], all[2]}}};
  const QualityStudy study = judge_quality(side, options);
  EXPECT_EQ(study.looks.number, 3);
  EXPECT_EQ(study.looks.taken.size(), 2U);
  for (const QualityRow& row : study.rows) {
    if (!row.gated) continue;
    if (row.variant == "echo-plain-fp32") {
      EXPECT_EQ(row.verdict, QualityVerdict::kPass);
    } else if (row.variant == "q4-plain-fp32") {
      EXPECT_EQ(row.verdict, QualityVerdict::kFail);
    } else {
      EXPECT_EQ(row.verdict, QualityVerdict::kInconclusive) << row.variant;
      EXPECT_EQ(row.words,
                "the 2 looks declared were taken: nothing more can be claimed of these runs");
    }
  }
  for (const RangeRow& row : study.ranges) EXPECT_NE(row.verdict, QualityVerdict::kPass);
}

/// Folders of quality.json, removed with the test.
class KeptLooks : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  static Side seeds(size_t count) {
    const auto none = losses_of_none(count);
    return together({seeds_of("none", none), seeds_of("dpr8", worse_by(0.004, 0.02, none))});
  }

  /// Judges as `noisemark quality --out` does.
  QualityStudy look_at(const Side& side, std::optional<int64_t> declared = {}) const {
    QualityOptions options;
    take_up_looks({folder_}, side, declared, options);
    QualityStudy study = judge_quality(side, options);
    write_quality(folder_, study);
    return study;
  }

  fs::path folder_ = fs::path(::testing::TempDir()) /
                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(KeptLooks, go_on_where_seeds_are_added) {
  EXPECT_EQ(look_at(seeds(3)).looks.number, 1);
  EXPECT_EQ(look_at(seeds(3)).looks.number, 1) << "the same runs again";
  EXPECT_EQ(look_at(seeds(5)).looks.number, 2);
  const QualityStudy third = look_at(seeds(9));
  EXPECT_EQ(third.looks.number, 3);
  EXPECT_NE(quality_markdown(third).find("No look is left of 2 declared"), std::string::npos);
  EXPECT_EQ(look_at(seeds(5)).looks.number, 2) << "as they were judged then";
}

TEST_F(KeptLooks, are_as_many_as_were_declared_before_the_first) {
  EXPECT_EQ(look_at(seeds(3), 3).looks.declared, 3);
  EXPECT_EQ(look_at(seeds(5)).looks.declared, 3);
  EXPECT_THROW((void)look_at(seeds(5), 2), Error);
  EXPECT_THROW((void)look_at(seeds(5), 0), Error);
  EXPECT_THROW((void)look_at(seeds(5), kMostLooks + 1), Error);
}

TEST_F(KeptLooks, of_other_runs_count_nothing) {
  (void)look_at(seeds(3), 1);
  const auto none = losses_of_none(3);
  const auto later = [](Result& result, uint64_t) { result.run_id[0] = 'x'; };
  const Side others = together(
      {seeds_of("none", none, later), seeds_of("dpr8", worse_by(0.004, 0.02, none), later)});
  EXPECT_EQ(look_at(others, 2).looks.number, 1);
}

TEST_F(KeptLooks, of_a_file_that_is_none_of_ours_are_asked_for) {
  EXPECT_FALSE(kept_quality(folder_).has_value());
  make_folder(folder_);
  for (const char* text : {"", "{}", R"({"schema":{"name":"noisemark.quality","version":"0"}})"}) {
    write_file_atomically(folder_ / "quality.json", text);
    EXPECT_THROW((void)kept_quality(folder_), Error) << text;
  }
}

TEST_F(KeptLooks, of_a_file_that_was_changed_are_refused_in_plain_words) {
  (void)look_at(seeds(5), 2);
  const fs::path file = folder_ / "quality.json";
  const auto words_for = [&](const std::string& text) -> std::string {
    write_file_atomically(file, text);
    try {
      (void)kept_quality(folder_);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string whole = read_file(file);
  auto json = nlohmann::json::parse(whole);
  EXPECT_EQ(words_for(whole), "accepted");

  json["looks"]["taken"] = nlohmann::json::array();
  EXPECT_NE(words_for(json.dump(1) + "\n").find("the file was changed"), std::string::npos);
  json.erase("alpha");
  const std::string missing = words_for(json.dump(1));
  EXPECT_NE(missing.find("alpha: missing"), std::string::npos) << missing;
  EXPECT_EQ(missing.find("json.exception"), std::string::npos) << missing;
  json["schema"]["version"] = "1.1.0";
  EXPECT_NE(words_for(json.dump(1)).find("schema.version: \"1.1.0\""), std::string::npos);
  EXPECT_NE(words_for("{").find("not JSON: it ends too early"), std::string::npos);
}

TEST_F(KeptLooks, that_lack_the_look_at_the_study_s_own_runs_are_refused) {
  const QualityStudy study = look_at(seeds(5), 2);
  ASSERT_GT(study.tests, 0);
  const auto words_of = [&](auto change) -> std::string {
    QualityStudy changed = study;
    change(changed.looks);
    try {
      (void)quality_from_json(quality_json(changed), "q.json");  // it seals the study again
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string lost = "look 1 is not at the runs that it judged";
  EXPECT_EQ(words_of([](Looks&) {}), "accepted");
  EXPECT_NE(words_of([](Looks& looks) { looks.taken = {}; }).find(lost), std::string::npos);
  EXPECT_NE(words_of([](Looks& looks) { looks.taken = {{}}; }).find(lost), std::string::npos);
  EXPECT_NE(words_of([](Looks& looks) { looks.taken = {{"x"}}; }).find(lost), std::string::npos);
  EXPECT_NE(words_of([](Looks& looks) { looks.number = 0; }).find("looks.number: 0 (1 to 2"),
            std::string::npos);
  EXPECT_NE(words_of([](Looks& looks) { looks.number = 9; }).find("looks.number: 9 (1 to 2"),
            std::string::npos);
}

TEST_F(KeptLooks, come_with_everything_that_was_asked_for) {
  const QualityOptions asked = {.gates = {{"val_loss", 0.02}, {"time_to_quality_s", {}}},
                                .ranges = {{"val_loss", 0.09, 0.12}},
                                .alpha = 0.1,
                                .power = 0.9,
                                .resamples = 500,
                                .seed = 7,
                                .looks = 3};
  QualityStudy study = judge_quality(seeds(5), asked);
  study.inconclusive_passes = true;
  write_quality(folder_, study);
  const KeptQuality kept = kept_quality(folder_).value();
  EXPECT_TRUE(kept.inconclusive_passes);
  ASSERT_EQ(kept.options.gates.size(), 2U);
  EXPECT_EQ(kept.options.gates[0].measure, "val_loss");
  EXPECT_EQ(kept.options.gates[0].margin, 0.02);
  EXPECT_EQ(kept.options.gates[1].margin, std::nullopt);
  ASSERT_EQ(kept.options.ranges.size(), 1U);
  EXPECT_EQ(kept.options.ranges[0].high, 0.12);
  EXPECT_EQ(kept.options.alpha, 0.1);
  EXPECT_EQ(kept.options.power, 0.9);
  EXPECT_EQ(kept.options.resamples, 500);
  EXPECT_EQ(kept.options.seed, 7U);
  EXPECT_EQ(kept.options.looks, 3);
  EXPECT_EQ(kept.options.earlier, (std::vector<RunIds>{run_ids_of(seeds(5))}));
}

}  // namespace
}  // namespace noisemark::reports
