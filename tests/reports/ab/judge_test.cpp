#include "reports/ab/judge.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reports/ab/ab_markdown.h"
#include "reports/error.h"
#include "tests/reports/ab/simulated.h"

namespace noisemark::reports {
namespace {

using test::simulate;
using test::Simulated;

const StochasticRow& rate_of(const AbVerdict& verdict) {
  return verdict.comparison.stochastic.front();
}

TEST(JudgeAb, an_untouched_twin_passes) {
  const AbVerdict verdict = judge_ab(simulate({}));
  EXPECT_EQ(verdict.comparison.verdict, CompareVerdict::kEquivalent);
  EXPECT_TRUE(verdict.comparison.reasons.empty());
  EXPECT_EQ(verdict.judged_pairs, 6);
  EXPECT_FALSE(verdict.extended);
}

TEST(JudgeAb, a_slow_down_of_ten_percent_is_a_regression) {
  Simulated machine;
  machine.slow_down = 0.10;
  const AbVerdict verdict = judge_ab(simulate(machine));
  EXPECT_EQ(verdict.comparison.verdict, CompareVerdict::kRegression);
  // Six pairs that differ by 0.7 % each from one another: their estimate is good to 0.3 %.
  EXPECT_NEAR(*rate_of(verdict).ratio, 1 / 1.10, 0.009);
}

TEST(JudgeAb, a_speed_up_never_fails) {
  Simulated machine;
  machine.slow_down = -0.10;
  const AbVerdict verdict = judge_ab(simulate(machine));
  EXPECT_EQ(verdict.comparison.verdict, CompareVerdict::kImproved);
  EXPECT_EQ(exit_code_of(verdict.comparison.verdict), ExitCode::kPass);
}

TEST(JudgeAb, of_a_hundred_noisy_twins_at_most_one_alarms_and_slow_ones_are_caught) {
  // As noisy as a busy two-core machine: a pair is good to 2 %.
  Simulated machine;
  machine.turn_noise = 0.01;
  machine.pair_noise = 0.015;
  machine.made = 12;
  const auto regressions = [&](double slow_down, int count) {
    machine.slow_down = slow_down;
    int alarms = 0;
    for (int i = 0; i < count; ++i) {
      machine.seed = static_cast<uint64_t>(i) + 100;
      AbOptions options;
      options.resamples = 1000;
      alarms +=
          judge_ab(simulate(machine), options).comparison.verdict == CompareVerdict::kRegression
              ? 1
              : 0;
    }
    return alarms;
  };
  EXPECT_LE(regressions(0, 100), 1);
  EXPECT_GE(regressions(0.10, 40), 38);
}

TEST(JudgeAb, on_a_machine_in_uproar_hardly_ever_alarms) {
  // Pairs of one build with itself differ by 12 %, as beside other busy programs.
  Simulated machine;
  machine.pair_noise = 0.08;
  AbOptions options;
  options.resamples = 1000;
  int alarms = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    machine.seed = seed;
    alarms +=
        judge_ab(simulate(machine), options).comparison.verdict == CompareVerdict::kRegression;
  }
  // By signs alone it would be 300 / 64.
  EXPECT_LE(alarms, 3);
}

TEST(JudgeAb, a_machine_that_slows_down_all_along_is_no_difference_between_builds) {
  Simulated machine;
  machine.drift = 2;
  machine.turn_noise = 0;
  machine.pair_noise = 0;
  const AbVerdict verdict = judge_ab(simulate(machine));
  // What is left of exp() over a block, where the drift within it is linear in the logarithm:
  // nothing.
  for (const AbPairFigure& figure : verdict.pairs) EXPECT_NEAR(figure.worsening, 0, 1e-12);
}

TEST(JudgeAb, other_work_is_not_comparable_whatever_the_figures_say) {
  Simulated machine;
  machine.slow_down = 0.5;
  AbRecord record = simulate(machine);
  record.b.identity["identity.version"] = "2";
  record.b.identity.erase("identity.definition_sha256");
  const AbVerdict verdict = judge_ab(record);
  EXPECT_EQ(verdict.comparison.verdict, CompareVerdict::kNotComparable);
  ASSERT_EQ(verdict.comparison.differences.size(), 2U);
  EXPECT_EQ(verdict.comparison.differences[0].field, "identity.definition_sha256");
  EXPECT_EQ(verdict.comparison.differences[0].candidate, "");
  EXPECT_EQ(verdict.comparison.differences[1].field, "identity.version");
  EXPECT_TRUE(verdict.comparison.stochastic.empty());
}

TEST(JudgeAb, a_clocks_policy_that_one_build_does_not_tell_is_a_difference) {
  AbRecord record = simulate({});
  record.b.identity["identity.hardware.gpu_clocks"] = "default";
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kNotComparable);
  record.a.identity["identity.hardware.gpu_clocks"] = "set to 1410 MHz";
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kNotComparable);
  record.a.identity["identity.hardware.gpu_clocks"] = "default";
  EXPECT_TRUE(judge_ab(record).comparison.differences.empty());
}

TEST(JudgeAb, another_benchmark_or_batch_is_not_comparable) {
  AbRecord record = simulate({});
  record.b.benchmark = "gmm16@cpu";
  record.b.batch = 8;
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kNotComparable);
}

TEST(JudgeAb, other_software_is_what_may_be_compared) {
  AbRecord record = simulate({});
  record.b.about["software.libtorch"] = "2.12.0";
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kEquivalent);
}

TEST(JudgeAb, another_number_of_parameters_is_a_regression) {
  AbRecord record = simulate({});
  record.b.parameters += 1;
  const AbVerdict verdict = judge_ab(record);
  EXPECT_EQ(verdict.comparison.verdict, CompareVerdict::kRegression);
  EXPECT_EQ(verdict.comparison.exact.front().metric, "parameters");
}

/// A record whose short runs differed in one figure.
AbRecord with_figure(const std::string& metric, CompareVerdict verdict) {
  AbRecord record = simulate({});
  record.figures = {{"", "peak_bytes", "bytes", 8.0, 8.0, "", "", CompareVerdict::kEquivalent, ""},
                    {"", metric, "bytes", 8.0, 9.0, "", "", verdict, "rose"}};
  return record;
}

TEST(JudgeAb, a_byte_more_in_a_short_run_is_a_regression_with_both_values) {
  const AbRecord record = with_figure("peak: workspace", CompareVerdict::kRegression);
  const AbVerdict verdict = judge_ab(record);
  EXPECT_EQ(verdict.comparison.verdict, CompareVerdict::kRegression);
  EXPECT_EQ(verdict.comparison.reasons,
            std::vector<std::string>{"peak: workspace: REGRESSION (rose)"});
  EXPECT_FALSE(wants_extension(record));
  const std::string text = ab_markdown(record, verdict);
  EXPECT_NE(
      text.find("| peak: workspace    |            8 |            9 | **REGRESSION** | rose |"),
      std::string::npos)
      << text;
}

TEST(JudgeAb, equal_bytes_by_owner_are_counted_and_not_listed) {
  const AbRecord record = with_figure("peak: workspace", CompareVerdict::kEquivalent);
  const std::string text = ab_markdown(record, judge_ab(record));
  EXPECT_EQ(text.find("peak: workspace"), std::string::npos) << text;
  EXPECT_NE(text.find("Bytes by owner that are equal, not shown: 1."), std::string::npos) << text;
}

TEST(JudgeAb, a_figure_that_does_not_repeat_within_a_build_proves_nothing) {
  const AbRecord record = with_figure("peak: workspace", CompareVerdict::kInconclusive);
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kInconclusive);
  EXPECT_FALSE(wants_extension(record));
}

TEST(JudgeAb, another_loss_trace_is_a_regression_unless_it_may_be_another) {
  const AbRecord record = with_figure("loss trace", CompareVerdict::kRegression);
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kRegression);
  AbOptions options;
  options.other_losses = true;
  EXPECT_EQ(judge_ab(record, options).comparison.verdict, CompareVerdict::kEquivalent);
}

TEST(JudgeAb, too_few_pairs_are_refused) {
  EXPECT_EQ(fewest_ab_pairs(), 6);  // 2^-6 is the first below 0.025
  Simulated machine;
  machine.pairs = 5;
  try {
    (void)judge_ab(simulate(machine));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_STREQ(error.what(), "ab: pairs: 5 (at least 6: fewer can never reach alpha 0.025)");
  }
}

TEST(JudgeAb, a_look_that_is_not_whole_proves_nothing) {
  Simulated machine;
  machine.slow_down = 0.10;
  machine.made = 5;
  const AbVerdict verdict = judge_ab(simulate(machine));
  EXPECT_EQ(verdict.comparison.verdict, CompareVerdict::kInconclusive);
  EXPECT_EQ(rate_of(verdict).words, "only 5 of 6 pairs were made");
}

TEST(JudgeAb, a_pair_without_all_its_blocks_does_not_count) {
  AbRecord record = simulate({});
  record.pairs.back().turns.resize(5);
  EXPECT_EQ(judge_ab(record).judged_pairs, 5);
  record.pairs.front().turns.clear();
  EXPECT_EQ(judge_ab(record).judged_pairs, 4);
}

TEST(JudgeAb, the_second_look_is_taken_only_when_it_is_whole) {
  Simulated machine;
  machine.made = 11;
  EXPECT_EQ(judge_ab(simulate(machine)).judged_pairs, 6);
  machine.made = 12;
  const AbVerdict verdict = judge_ab(simulate(machine));
  EXPECT_EQ(verdict.judged_pairs, 12);
  EXPECT_TRUE(verdict.extended);
}

TEST(JudgeAb, extends_once_and_only_what_is_inconclusive) {
  EXPECT_FALSE(wants_extension(simulate({})));
  Simulated machine;
  machine.pair_noise = 0.05;
  AbRecord noisy = simulate(machine);
  EXPECT_EQ(judge_ab(noisy).comparison.verdict, CompareVerdict::kInconclusive);
  EXPECT_TRUE(wants_extension(noisy));
  AbRecord decided = noisy;
  decided.b.parameters += 1;
  EXPECT_FALSE(wants_extension(decided));
  AbRecord stopped = noisy;
  stopped.ended = "interrupted";
  EXPECT_FALSE(wants_extension(stopped));
  machine.made = 12;
  EXPECT_FALSE(wants_extension(simulate(machine)));
}

TEST(JudgeAb, a_noise_floor_widens_the_margin_and_beyond_five_percent_leaves_no_gate) {
  Simulated machine;
  machine.slow_down = 0.06;
  AbRecord record = simulate(machine);
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kRegression);
  record.plan.noise_floor_frac = 0.04;
  EXPECT_EQ(rate_of(judge_ab(record)).margin_frac, 0.08);
  EXPECT_NE(judge_ab(record).comparison.verdict, CompareVerdict::kRegression);
  AbOptions options;
  options.noise_floor_frac = 0.051;
  EXPECT_EQ(judge_ab(record, options).comparison.verdict, CompareVerdict::kCalibrationNeeded);
}

TEST(JudgeAb, a_device_that_slowed_itself_down_makes_the_clocks_invalid) {
  Simulated machine;
  machine.slow_down = 0.10;
  AbRecord record = simulate(machine);
  record.environment = {{"gpu_clock_reasons", "idle"},
                        {"at the end: gpu_clock_reasons", "power cap, thermal slow-down"}};
  const AbVerdict hot = judge_ab(record);
  EXPECT_EQ(hot.comparison.verdict, CompareVerdict::kInvalidClocks);
  EXPECT_EQ(exit_code_of(hot.comparison), ExitCode::kNotComparable);
  EXPECT_EQ(rate_of(hot).words, "the device slowed itself down: thermal slow-down");
  const std::string text = ab_markdown(record, hot);
  EXPECT_NE(text.find("lock its clocks"), std::string::npos) << text;
  EXPECT_FALSE(wants_extension(record));
  record.environment["at the end: gpu_clock_reasons"] = "power cap";
  for (AbPair& pair : record.pairs) pair.clock_reasons = "power cap";
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kRegression);
  record.pairs[3].clock_reasons = "power cap, power brake";
  EXPECT_EQ(rate_of(judge_ab(record)).words,
            "the device slowed itself down in 1 of 6 pairs: power brake");
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kInvalidClocks);
}

TEST(JudgeAb, a_block_that_is_none_is_refused) {
  AbRecord record = simulate({});
  record.pairs[2].turns[1].side = AbSide::kA;
  record.pairs[2].turns[2].side = AbSide::kA;
  EXPECT_THROW((void)judge_ab(record), Error);
}

}  // namespace
}  // namespace noisemark::reports
