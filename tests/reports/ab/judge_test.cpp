#include "reports/ab/judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reports/base/error.h"
#include "tests/reports/ab/simulated.h"
#include "tests/reports/compare/runs.h"

namespace noisemark::reports {
namespace {

using test::Change;
using Results = std::vector<Result>;

/// Runs of one build, under the deterministic profile.
Results runs(const std::string& build, size_t count, const Change& change = {}) {
  const auto deterministic = [&](Result& result, size_t i) {
    result.protocol.deterministic = true;
    result.metrics.push_back(
        {"flop_per_image", "FLOP", Direction::kNeutral, 36.0, "", "exact", {}, 1, ""});
    if (change) change(result, i);
  };
  Results results;
  for (const NamedResult& run :
       test::side(build, test::rates_around(100, count), deterministic).runs) {
    results.push_back(run.result);
  }
  return results;
}

ExactRow row_of(const std::vector<ExactRow>& rows, const std::string& metric) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const ExactRow& row) { return row.metric == metric; });
  EXPECT_NE(found, rows.end()) << metric;
  return found == rows.end() ? ExactRow{} : *found;
}

TEST(ExactFigures, of_equal_builds_are_equal_whatever_their_software) {
  const auto newer = [](Result& r, size_t) { r.identity.software["libtorch"] = "9"; };
  const std::vector<ExactRow> rows = compare_exact_figures(runs("old", 1), runs("new", 1, newer));
  EXPECT_GT(rows.size(), 20U);
  for (const ExactRow& row : rows) {
    EXPECT_EQ(row.verdict, CompareVerdict::kEquivalent) << row.metric;
  }
  EXPECT_EQ(row_of(rows, "loss trace").base_digest.size(), 64U);
  EXPECT_EQ(row_of(rows, "peak_bytes").unit, "bytes");
  EXPECT_TRUE(std::none_of(rows.begin(), rows.end(),
                           [](const ExactRow& row) { return row.metric == "parameters"; }));
}

TEST(ExactFigures, differ_by_a_byte_a_flop_or_a_bit_of_a_loss) {
  const struct {
    const char* metric;
    Change change;
  } faults[] = {
      {"peak_bytes", [](Result& r, size_t) { *test::metric(r, "peak_bytes").value += 1; }},
      {"saved_bytes", [](Result& r, size_t) { *test::metric(r, "saved_bytes").value += 1; }},
      {"flop_per_image", [](Result& r, size_t) { *test::metric(r, "flop_per_image").value -= 1; }},
      {"peak: workspace", [](Result& r, size_t) { r.memory.peak.by_category["workspace"] += 1; }},
      {"loss trace", [](Result& r, size_t) { r.determinism.loss_trace_sha256[0] ^= 1; }},
      {"absolute gates",
       [](Result& r, size_t) {
         r.exit = {1, "failed", {"leak"}};
       }},
  };
  const Results base = runs("old", 1);
  for (const auto& fault : faults) {
    const auto rows = compare_exact_figures(base, runs("new", 1, fault.change));
    EXPECT_EQ(row_of(rows, fault.metric).verdict, CompareVerdict::kRegression) << fault.metric;
  }
}

TEST(ExactFigures, that_do_not_repeat_within_a_build_prove_nothing) {
  const auto unsteady = [](Result& r, size_t i) {
    *test::metric(r, "saved_bytes").value += static_cast<double>(i);
  };
  const auto twice = compare_exact_figures(runs("old", 2), runs("new", 2, unsteady));
  EXPECT_EQ(row_of(twice, "saved_bytes").verdict, CompareVerdict::kInconclusive);
  // Makes B worse beyond everything that A did, however unsteady B is.
  const auto worse = [](Result& r, size_t i) {
    *test::metric(r, "saved_bytes").value += static_cast<double>(i + 1);
  };
  const auto leaking = compare_exact_figures(runs("old", 2), runs("new", 2, worse));
  EXPECT_EQ(row_of(leaking, "saved_bytes").verdict, CompareVerdict::kRegression);
  const auto more = [](Result& r, size_t) { *test::metric(r, "saved_bytes").value += 1; };
  const auto steady = compare_exact_figures(runs("old", 2), runs("new", 2, more));
  EXPECT_EQ(row_of(steady, "saved_bytes").verdict, CompareVerdict::kRegression);
}

TEST(ExactFigures, of_other_work_are_not_compared) {
  const auto other = [](Result& r, size_t) { r.identity.threads += 1; };
  EXPECT_TRUE(compare_exact_figures(runs("old", 1), runs("new", 1, other)).empty());
  EXPECT_TRUE(compare_exact_figures({}, runs("new", 1)).empty());
  const auto clocks = [](Result& r, size_t) {
    r.identity.hardware["cpu_clocks"] = "governor performance";
  };
  EXPECT_TRUE(compare_exact_figures(runs("old", 1), runs("new", 1, clocks)).empty());
}

}  // namespace

namespace {

using test::simulate;

/// Changes a loss of one side in every pair, or in one of them.
void change_loss(AbRecord& record, AbSide side, double (*change)(double), size_t from = 0,
                 size_t to = 6) {
  for (size_t i = from; i < to; ++i) {
    for (AbTurn& turn : record.pairs[i].turns) {
      if (turn.side != side) continue;
      turn.loss[3] = change(turn.loss[3]);
      break;
    }
  }
}

double next_bit(double loss) {
  return std::nextafter(loss, 1.0);
}

double one_percent(double loss) {
  return 1.01 * loss;
}

TEST(Losses, that_are_equal_bit_for_bit_pass) {
  const LossFinding finding = compare_losses(simulate({}), "cell", false);
  ASSERT_TRUE(finding.row);
  EXPECT_EQ(finding.row->verdict, CompareVerdict::kEquivalent);
  EXPECT_EQ(finding.row->base_digest, finding.row->candidate_digest);
  EXPECT_EQ(finding.row->metric, "losses of 25 steps");
}

TEST(Losses, that_differ_in_the_last_bit_are_a_regression_and_the_step_is_named) {
  AbRecord record = simulate({});
  change_loss(record, AbSide::kB, next_bit);
  const LossFinding finding = compare_losses(record, "cell", false);
  EXPECT_EQ(finding.row->verdict, CompareVerdict::kRegression);
  EXPECT_NE(finding.row->words.find("first at step 8: 0.1111111111111111 and 0.11111111111111112"),
            std::string::npos)
      << finding.row->words;
  EXPECT_NE(finding.row->base_digest, finding.row->candidate_digest);
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kRegression);
}

TEST(Losses, may_differ_where_that_is_allowed_and_it_is_said) {
  AbRecord record = simulate({});
  change_loss(record, AbSide::kB, one_percent);
  AbOptions options;
  options.other_losses = true;
  const AbVerdict verdict = judge_ab(record, options);
  EXPECT_EQ(verdict.comparison.verdict, CompareVerdict::kEquivalent);
  ASSERT_EQ(verdict.comparison.notes.size(), 2U) << "the other one: there were no short runs";
  EXPECT_EQ(verdict.comparison.notes[0].find("the losses differ, as they may: "), 0U);
}

TEST(Losses, that_b_does_not_repeat_are_inconclusive) {
  AbRecord record = simulate({});
  change_loss(record, AbSide::kB, next_bit, 4, 5);
  const LossFinding finding = compare_losses(record, "cell", false);
  EXPECT_EQ(finding.row->verdict, CompareVerdict::kInconclusive);
  EXPECT_EQ(finding.row->words, "B does not repeat its own losses");
}

TEST(Losses, that_a_does_not_repeat_are_judged_only_in_the_deterministic_profile) {
  AbRecord record = simulate({});
  change_loss(record, AbSide::kA, next_bit, 4, 5);
  const LossFinding finding = compare_losses(record, "cell", false);
  EXPECT_FALSE(finding.row);
  EXPECT_NE(finding.note.find("A does not repeat its own losses"), std::string::npos);
  record.a.identity["protocol.deterministic"] = "yes";
  EXPECT_EQ(compare_losses(record, "cell", false).row->verdict, CompareVerdict::kInconclusive);
}

TEST(Losses, of_a_process_that_made_fewer_steps_are_compared_as_far_as_they_go) {
  AbRecord record = simulate({});
  record.pairs.back().turns.resize(3);
  EXPECT_EQ(compare_losses(record, "cell", false).row->verdict, CompareVerdict::kEquivalent);
}

TEST(Losses, of_no_pair_say_nothing) {
  test::Simulated machine;
  machine.made = 0;
  const LossFinding finding = compare_losses(simulate(machine), "cell", false);
  EXPECT_FALSE(finding.row);
  EXPECT_EQ(finding.note, "");
}

}  // namespace

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
  // The machine is as noisy as a busy one with two cores: a pair is good to 2 %.
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
  // The rest of exp() over a block, where the drift within it is linear in the logarithm:
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
  EXPECT_NE(text.find("Equal bytes by owner are not shown; there are 1."), std::string::npos)
      << text;
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
