#include "reports/seeds/judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "reports/base/error.h"
#include "reports/result/gate.h"
#include "reports/result/json_io.h"
#include "reports/seeds/study.h"
#include "tests/reports/free_text.h"
#include "tests/reports/sample_result.h"
#include "tests/reports/seeds/seeds.h"

namespace noisemark::reports {
namespace {

using test::ChangeSeed;
using test::losses_of_none;
using test::seeds_of;
using test::together;
using test::worse_by;

const QualityRow& row_of(const QualityStudy& study, const std::string& variant,
                         const std::string& measure = "val_loss") {
  for (const QualityRow& row : study.rows) {
    if (row.variant == variant + "-plain-fp32" && row.measure == measure) return row;
  }
  throw std::logic_error("no row of " + variant);
}

/// `count` seeds of none, and of "echo+dpr8" worse by `frac`.
QualityStudy judged(double frac, double spread, size_t count = 3) {
  const auto none = losses_of_none(count);
  return judge_quality(
      together({seeds_of("none", none), seeds_of("echo+dpr8", worse_by(frac, spread, none))}));
}

std::string words_of(const QualityStudy& study) {
  return quality_markdown(study);
}

TEST(Quality, passes_what_is_proven_to_lie_within_the_margin) {
  const QualityStudy study = judged(0.001, 0.001);
  EXPECT_EQ(study.verdict, QualityVerdict::kPass) << words_of(study);
  EXPECT_TRUE(study.reasons.empty());
  const QualityRow& row = row_of(study, "echo+dpr8");
  EXPECT_EQ(row.seeds.size(), 3U);
  EXPECT_EQ(row.margin, 0.01);
  EXPECT_EQ(row.margin_from, "default");
  EXPECT_EQ(row.design, TestDesign::kPaired);
  EXPECT_GT(*row.correlation, 0.9);
  EXPECT_NEAR(*row.difference, 0.001, 1e-5);
  EXPECT_LE(*row.p_adjusted, 0.05);
  EXPECT_GT(*row.detectable, 0);
  EXPECT_EQ(row.seeds_needed, std::nullopt);
}

TEST(Quality, fails_what_is_proven_to_be_worse_by_more) {
  const QualityStudy study = judged(0.05, 0.003);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << words_of(study);
  EXPECT_EQ(exit_code_of(study), ExitCode::kFailed);
  ASSERT_EQ(study.reasons.size(), 1U);
  EXPECT_NE(study.reasons[0].find("echo+dpr8-plain-fp32: val_loss: FAIL (worse by 5."),
            std::string::npos)
      << study.reasons[0];
}

TEST(Quality, of_noise_is_inconclusive_and_says_how_many_seeds_decide) {
  const QualityStudy study = judged(0.004, 0.02);
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << words_of(study);
  EXPECT_EQ(exit_code_of(study), ExitCode::kInconclusive);
  const QualityRow& row = row_of(study, "echo+dpr8");
  EXPECT_GT(row.interval->high, 0.01);
  EXPECT_LT(row.interval->low, 0.01) << "no real difference is proven";
  ASSERT_TRUE(row.seeds_needed.has_value());
  EXPECT_GT(*row.seeds_needed, 3);
  const std::string more = std::to_string(*row.seeds_needed - 3) + " more seeds would decide";
  EXPECT_NE(study.reasons.at(0).find(more), std::string::npos) << study.reasons.at(0);
  EXPECT_GT(*row.detectable, 0.01);
}

TEST(Quality, does_not_fail_where_the_mean_alone_is_beyond_the_margin) {
  const QualityStudy study = judged(0.02, 0.02);
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << words_of(study);
  EXPECT_GT(*row_of(study, "echo+dpr8").difference, 0.01);
}

TEST(Quality, never_fails_what_is_proven_to_be_better) {
  const QualityStudy study = judged(-0.05, 0.003);
  EXPECT_EQ(study.verdict, QualityVerdict::kPass);
  EXPECT_NE(row_of(study, "echo+dpr8").words.find("better by"), std::string::npos);
}

TEST(Quality, of_half_a_proof_is_inconclusive) {
  const QualityStudy study = judged(-0.009, 0.003);
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive);
  EXPECT_NE(row_of(study, "echo+dpr8").words.find("not worse"), std::string::npos);
}

TEST(Quality, of_one_seed_is_inconclusive_for_good) {
  const QualityStudy study =
      judge_quality(together({seeds_of("none", {0.1}), seeds_of("echo", {0.1000001})}));
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive);
  const QualityRow& row = row_of(study, "echo");
  EXPECT_EQ(row.words, "1 seed can never decide: val_loss is judged from 2 on");
  EXPECT_EQ(row.seeds_needed, 2);
  EXPECT_EQ(row.design, std::nullopt);
  ASSERT_EQ(study.reasons.size(), 1U);
  EXPECT_NE(study.reasons[0].find("is judged from 2 on; at least 1 more seed)"), std::string::npos)
      << study.reasons[0];
}

test::ChangeSeed same_weights_as_none() {
  return [](Result& result, uint64_t seed) {
    result.determinism = seeds_of("none", losses_of_none(9))[seed].result.determinism;
  };
}

TEST(Quality, of_equal_bits_passes_with_a_difference_of_0_even_for_one_seed) {
  for (const size_t count : {1U, 3U}) {
    const auto none = losses_of_none(count);
    const QualityStudy study = judge_quality(
        together({seeds_of("none", none), seeds_of("echo", none, same_weights_as_none())}));
    EXPECT_EQ(study.verdict, QualityVerdict::kPass) << words_of(study);
    EXPECT_EQ(row_of(study, "echo").difference, 0);
    EXPECT_EQ(row_of(study, "echo").words, "trained to the same bits in every seed");
    EXPECT_EQ(study.tests, 0) << "nothing is left to chance";
  }
}

TEST(Quality, of_a_mode_that_rounds_and_has_the_bits_of_none_proves_nothing) {
  const auto none = losses_of_none(5);
  const auto rounds_nothing = [](Result& result, uint64_t seed) {
    same_weights_as_none()(result, seed);
    result.memory_mode.measured = true;
    result.memory_mode.lossless = false;
  };
  const QualityStudy study =
      judge_quality(together({seeds_of("none", none), seeds_of("dpr8", none, rounds_nothing)}));
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << words_of(study);
  EXPECT_NE(row_of(study, "dpr8").words.find("it rounded nothing"), std::string::npos);
}

TEST(Quality, of_a_mode_that_had_no_plan_is_inconclusive_however_near_its_losses_are) {
  const auto none = losses_of_none(5);
  const auto without_plan = [](Result& result, uint64_t seed) {
    if (seed != 3) return;
    Gate gate{"plan", "passes_without_plan", "equals", {}, 0, "count", {}, {}};
    gate.verdict = Verdict::kFail;
    result.gates.push_back(gate);
    result.exit = exit_of(result.gates, false);
  };
  const auto near = worse_by(0.0001, 0.0001, none);
  const QualityStudy study =
      judge_quality(together({seeds_of("none", none), seeds_of("dpr8", near, without_plan)}));
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << words_of(study);
  EXPECT_NE(row_of(study, "dpr8").words.find("seed 3: its mode ended a pass without a plan"),
            std::string::npos);
  EXPECT_EQ(judge_quality(together({seeds_of("none", none), seeds_of("dpr8", near)})).verdict,
            QualityVerdict::kPass)
      << "the same with a plan";
}

TEST(Quality, of_equal_losses_of_other_weights_proves_nothing) {
  for (const size_t count : {1U, 2U, 5U}) {
    const auto none = losses_of_none(count);
    const QualityStudy study =
        judge_quality(together({seeds_of("none", none), seeds_of("echo", none)}));
    EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << count;
  }
}

TEST(Quality, of_differences_without_spread_claims_nothing) {
  const auto with_kid = [](double worse) {
    return [=](Result& result, uint64_t seed) {
      const double kid = static_cast<double>(seed) + worse;
      result.metrics.push_back({"kid", "1", Direction::kLower, kid, "", "exact", {}, 1, ""});
    };
  };
  const auto none = losses_of_none(3);
  const QualityStudy study = judge_quality(
      together({seeds_of("none", none, with_kid(0)), seeds_of("q2", none, with_kid(0.5))}),
      {.gates = {{"kid", 1}}});
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << words_of(study);
  EXPECT_NE(row_of(study, "q2", "kid").words.find("no spread"), std::string::npos);
}

TEST(Quality, a_coarse_measure_that_is_equal_proves_nothing) {
  const auto none = losses_of_none(3);
  const QualityStudy study =
      judge_quality(together({seeds_of("none", none), seeds_of("echo", none)}),
                    {.gates = {{"samples_to_quality", {}}}});
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << words_of(study);
}

TEST(Quality, gates_time_to_quality_when_asked_to) {
  const auto none = losses_of_none(4);
  const Side side =
      together({seeds_of("none", none), seeds_of("echo", worse_by(0.2, 0.001, none))});
  const QualityStudy study = judge_quality(side, {.gates = {{"time_to_quality_s", {}}}});
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << words_of(study);
  EXPECT_EQ(row_of(study, "echo", "time_to_quality_s").margin, 0.03);
  EXPECT_FALSE(row_of(study, "echo", "val_loss").gated);
}

TEST(Quality, shows_what_it_does_not_judge) {
  const QualityStudy study = judged(0.001, 0.001);
  for (const char* measure : {"val_loss_weighted", "time_to_quality_s", "samples_to_quality"}) {
    EXPECT_FALSE(row_of(study, "echo+dpr8", measure).gated) << measure;
  }
  const auto timesteps =
      std::count_if(study.rows.begin(), study.rows.end(),
                    [](const QualityRow& row) { return row.timestep.has_value(); });
  EXPECT_EQ(timesteps, 8);
}

TEST(Quality, a_target_that_a_mode_misses_is_no_pass) {
  const auto none = losses_of_none(3);
  const Side side =
      together({seeds_of("none", none), seeds_of("q2", none, [](Result& result, uint64_t seed) {
                  if (seed != 1) return;
                  for (Metric& metric : result.metrics) {
                    if (metric.name != "time_to_quality_s") continue;
                    metric.value.reset();
                    metric.missing_reason = "the target was not reached";
                  }
                })});
  const QualityStudy study = judge_quality(side, {.gates = {{"time_to_quality_s", {}}}});
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive);
  EXPECT_EQ(row_of(study, "q2", "time_to_quality_s").words, "seed 1: the target was not reached");
}

TEST(Quality, shares_alpha_among_modes_by_holm) {
  // One mode passes by itself; beside three that say nothing it does not.
  const auto none = losses_of_none(3);
  const auto near = worse_by(0.004, 0.002, none);
  const auto noisy = worse_by(0.0, 0.05, none);
  const QualityStudy alone =
      judge_quality(together({seeds_of("none", none), seeds_of("dpr8", near)}));
  EXPECT_EQ(alone.verdict, QualityVerdict::kPass) << words_of(alone);
  const QualityStudy among =
      judge_quality(together({seeds_of("none", none), seeds_of("dpr8", near), seeds_of("q2", noisy),
                              seeds_of("q4", noisy), seeds_of("dpr16", noisy)}));
  const QualityRow& row = row_of(among, "dpr8");
  EXPECT_EQ(among.tests, 4);
  EXPECT_NEAR(*row.p_adjusted, 4 * *row.p, 1e-12);
  EXPECT_EQ(row.verdict, QualityVerdict::kInconclusive) << words_of(among);
  EXPECT_EQ(row.words, "within the margin by itself, but not among 4 tests");
}

TEST(Quality, the_worst_mode_decides) {
  const auto none = losses_of_none(4);
  const QualityStudy study = judge_quality(
      together({seeds_of("none", none), seeds_of("dpr16", worse_by(0.0001, 0.0001, none)),
                seeds_of("q2", worse_by(0.2, 0.001, none))}));
  EXPECT_EQ(study.verdict, QualityVerdict::kFail);
  EXPECT_EQ(row_of(study, "dpr16").verdict, QualityVerdict::kPass);
  EXPECT_EQ(study.reasons.size(), 1U);
}

TEST(Quality, fails_what_was_not_finite_where_the_reference_was) {
  const auto none = losses_of_none(3);
  const auto diverged = [](Result& result, uint64_t seed) {
    if (seed != 2) return;
    result.gates = evaluate_gates(result, {}, {false, "loss at step 12"});
    result.exit = exit_of(result.gates, false);
    result.quality.evaluations.clear();
  };
  const QualityStudy study =
      judge_quality(together({seeds_of("none", none), seeds_of("dpr8", none, diverged)}));
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << words_of(study);
  const QualityStudy both =
      judge_quality(together({seeds_of("none", none, diverged), seeds_of("dpr8", none, diverged)}));
  EXPECT_EQ(both.verdict, QualityVerdict::kInconclusive) << words_of(both);
}

TEST(Quality, of_survivors_alone_is_inconclusive) {
  const auto none = losses_of_none(4);
  const auto same = worse_by(0.0001, 0.0001, none);
  const auto ended = [](Result& result, uint64_t seed) {
    if (seed == 3) result.exit = {71, "out of memory", {}};
  };
  const QualityStudy study =
      judge_quality(together({seeds_of("none", none), seeds_of("dpr8", same, ended)}));
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive);
  EXPECT_EQ(row_of(study, "dpr8").words, "seed 3: the run ended as \"out of memory\"");
  Side side = together({seeds_of("none", none), seeds_of("dpr8", same)});
  EXPECT_EQ(judge_quality(side).verdict, QualityVerdict::kPass);
  side.lost = {{"ho-cifar10@cpu/dpr8-plain-fp32-seed4", "it left no result"}};
  EXPECT_EQ(judge_quality(side).verdict, QualityVerdict::kInconclusive);
}

TEST(Quality, of_trainings_that_have_hardly_begun_says_so_once) {
  const auto none = losses_of_none(3);
  const auto begun = [](Result& result, uint64_t /*seed*/) {
    auto& evaluations = result.quality.evaluations;
    evaluations.front().loss = evaluations.back().loss / 0.95;
  };
  const QualityStudy study = judge_quality(together(
      {seeds_of("none", none, begun), seeds_of("echo+dpr8", worse_by(0, 0.001, none), begun)}));
  ASSERT_EQ(study.reasons.size(), 1U) << words_of(study);
  EXPECT_NE(study.reasons[0].find("the loss was still 95.0"), std::string::npos)
      << study.reasons[0];
}

TEST(Quality, compares_nothing_but_the_same_work_on_the_same_machine) {
  const auto none = losses_of_none(3);
  const auto other = [](Result& result, uint64_t) { result.identity.threads = 7; };
  const QualityStudy study =
      judge_quality(together({seeds_of("none", none), seeds_of("echo", none, other)}));
  EXPECT_EQ(study.verdict, QualityVerdict::kNotComparable) << words_of(study);
  EXPECT_EQ(exit_code_of(study), ExitCode::kNotComparable);
  ASSERT_EQ(study.differences.size(), 1U);
  EXPECT_EQ(study.differences[0].field, "identity.threads");
  EXPECT_TRUE(study.rows.empty());
}

TEST(Quality, is_not_comparable_without_a_seed_in_common_and_needs_a_reference) {
  const auto none = losses_of_none(3);
  const auto later = [](Result& result, uint64_t seed) { result.seeds.base = seed + 10; };
  const QualityStudy study =
      judge_quality(together({seeds_of("none", none), seeds_of("echo", none, later)}));
  EXPECT_EQ(study.verdict, QualityVerdict::kNotComparable);
  EXPECT_EQ(study.unpaired.size(), 6U);
  const QualityStudy lone = judge_quality(together({seeds_of("echo", none)}));
  EXPECT_EQ(lone.verdict, QualityVerdict::kBaselineNeeded);
  EXPECT_EQ(exit_code_of(lone), ExitCode::kBaselineNeeded);
}

TEST(Quality, judges_a_precision_beside_plain_fp32) {
  const auto none = losses_of_none(4);
  const auto bf16 = [](Result& result, uint64_t) { result.identity.precision = "bf16"; };
  const QualityStudy study = judge_quality(
      together({seeds_of("none", none),
                seeds_of("none", worse_by(0.04, 0.001, none), [&](Result& r, uint64_t seed) {
                  bf16(r, seed);
                  r.run_id[0] = r.run_id[0] == 'f' ? 'e' : 'f';
                })}));
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << words_of(study);
  ASSERT_FALSE(study.rows.empty());
  EXPECT_EQ(study.rows[0].variant, "none-plain-bf16");
  EXPECT_EQ(study.rows[0].reference, "none-plain-fp32");
}

TEST(Quality, judges_ranks_that_round_gradients_beside_those_that_do_not) {
  const auto none = losses_of_none(3);
  const ChangeSeed by_ranks = [](Result& r, uint64_t) {
    r.identity.ranks = 2;
    r.identity.backend = "gloo";
  };
  const ChangeSeed rounded = [&](Result& r, uint64_t seed) {
    by_ranks(r, seed);
    r.identity.reduction = "bf16";
    r.run_id[0] = r.run_id[0] == 'f' ? 'e' : 'f';
  };
  const QualityStudy study = judge_quality(together(
      {seeds_of("none", none, by_ranks), seeds_of("none", worse_by(0.001, 0.001, none), rounded)}));
  EXPECT_EQ(study.verdict, QualityVerdict::kPass) << words_of(study);
  ASSERT_FALSE(study.rows.empty());
  EXPECT_EQ(study.rows[0].variant, "none-plain-fp32-bf16-reduced");
  EXPECT_EQ(study.rows[0].reference, "none-plain-fp32");
}

TEST(Quality, refuses_what_it_cannot_judge) {
  const auto none = losses_of_none(2);
  EXPECT_THROW((void)judge_quality(together({seeds_of("none", none)})), Error);
  const Side twice =
      together({seeds_of("none", none), seeds_of("none", none), seeds_of("q2", none)});
  EXPECT_THROW((void)judge_quality(twice), Error) << "a repetition is no new seed";
  Side other = twice;
  for (size_t i = 0; i < 2; ++i) {
    other.runs[i].result.identity.definition_sha256 = "another";
  }
  try {
    (void)judge_quality(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(", of another definition (runs of one definition)"),
              std::string::npos)
        << error.what();
  }
  const Side side = together({seeds_of("none", none), seeds_of("q2", none)});
  EXPECT_THROW((void)judge_quality(side, {.gates = {{"val_los", {}}}}), Error);
  EXPECT_THROW((void)judge_quality(side, {.gates = {{"val_loss", {}}, {"val_loss", {}}}}), Error);
  EXPECT_THROW((void)judge_quality(side, {.gates = {{"val_loss", 0.2}}}), Error);
  EXPECT_THROW((void)judge_quality(side, {.gates = {{"images_per_s", {}}}}), Error);
  EXPECT_THROW((void)judge_quality(side, {.ranges = {{"val_loss", 2, 1}}}), Error);
}

TEST(Quality, takes_the_margin_of_the_definition_and_says_which_it_took) {
  const auto none = losses_of_none(3);
  const auto narrow = [](Result& result, uint64_t) {
    result.definition = R"({"quality":{"val_loss_margin":0.0005}})";
  };
  const Side side = together(
      {seeds_of("none", none, narrow), seeds_of("dpr8", worse_by(0.001, 0.0001, none), narrow)});
  const QualityStudy study = judge_quality(side);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << words_of(study);
  EXPECT_EQ(row_of(study, "dpr8").margin_from, "definition");
  const QualityStudy given = judge_quality(side, {.gates = {{"val_loss", 0.02}}});
  EXPECT_EQ(given.verdict, QualityVerdict::kPass);
  EXPECT_EQ(row_of(given, "dpr8").margin_from, "given");
}

TEST(Quality, judges_a_range_in_every_variant) {
  const std::vector<double> none = {0.1, 0.101, 0.102, 0.099, 0.1005};
  const Side side = together({seeds_of("none", none), seeds_of("q2", worse_by(0.5, 0.01, none))});
  const QualityStudy study = judge_quality(side, {.ranges = {{"val_loss", 0.09, 0.12}}});
  ASSERT_EQ(study.ranges.size(), 2U);
  EXPECT_EQ(study.ranges[0].variant, "none-plain-fp32");
  EXPECT_EQ(study.ranges[0].verdict, QualityVerdict::kPass);
  EXPECT_EQ(study.ranges[1].verdict, QualityVerdict::kFail);
  EXPECT_EQ(study.ranges[1].words, "above the range");
}

TEST(Quality, says_the_same_for_runs_in_any_order) {
  const auto none = losses_of_none(3);
  Side side = together({seeds_of("none", none), seeds_of("dpr8", worse_by(0.02, 0.01, none)),
                        seeds_of("q2", worse_by(0.1, 0.03, none))});
  const QualityStudy once = judge_quality(side);
  std::reverse(side.runs.begin(), side.runs.end());
  const QualityStudy again = judge_quality(side);
  EXPECT_EQ(quality_markdown(once), quality_markdown(again));
  EXPECT_EQ(quality_json(once), quality_json(again));
}

TEST(Quality, lets_only_the_inconclusive_pass_when_asked_to) {
  QualityStudy study = judged(0.004, 0.02);
  study.inconclusive_passes = true;
  EXPECT_EQ(exit_code_of(study), ExitCode::kPass);
  EXPECT_NE(quality_markdown(study).find("let pass"), std::string::npos);
  study.verdict = QualityVerdict::kNotComparable;
  EXPECT_EQ(exit_code_of(study), ExitCode::kNotComparable);
}

TEST(QualityMarkdown, is_broken_by_no_text_of_a_result) {
  test::expect_no_text_makes_blocks(test::full_result(), [](const Result& result) {
    Side side;
    for (const char* mode : {"none", "echo"}) {
      for (const uint64_t seed : {1, 2}) {
        side.runs.push_back({result.title, result});
        if (result.identity.mode == test::full_result().identity.mode) {
          side.runs.back().result.identity.mode = mode;
        }
        side.runs.back().result.seeds.base = seed;
        side.runs.back().result.run_id = std::string(mode) + std::to_string(seed);
      }
    }
    side.lost = {{result.title, "it left no result"}};
    try {
      return quality_markdown(judge_quality(side));
    } catch (const Error&) {
      return std::string();
    }
  });
}

}  // namespace
}  // namespace noisemark::reports
