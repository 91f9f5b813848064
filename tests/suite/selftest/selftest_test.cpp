#include "suite/selftest/selftest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "reports/compare/compare.h"
#include "reports/compare/inference.h"
#include "reports/render/check.h"
#include "reports/result/gate.h"
#include "reports/result/json_io.h"
#include "reports/result/metrics.h"
#include "tests/reports/compare/runs.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

using reports::CompareVerdict;
using reports::test::rates_around;
using reports::test::side;

/// Eight rounds whose candidate runs at `ratio` of the base's images/s.
reports::Comparison rounds(double ratio, size_t count = 8) {
  return reports::compare(side("base", rates_around(100, count)),
                          side("new", rates_around(100 * ratio, count)));
}

const Trial kTwin{"none", "made-up rounds", ""};
const Trial kSlower{"every step longer", "made-up rounds", "images_per_s"};

TEST(SelfTestTrial, of_a_fault_is_as_expected_when_its_judge_calls_it_a_regression) {
  const TrialOutcome outcome = answer(kSlower, rounds(0.9));
  EXPECT_EQ(outcome.judged_by, std::vector<std::string>{"images_per_s"});
  EXPECT_TRUE(outcome.caught);
  EXPECT_TRUE(outcome.as_expected);
  EXPECT_EQ(exit_code_of({outcome}), ExitCode::kPass);
}

TEST(SelfTestTrial, of_a_fault_that_is_not_there_is_red) {
  const TrialOutcome outcome = answer(kSlower, rounds(1));
  EXPECT_FALSE(outcome.caught);
  EXPECT_FALSE(outcome.as_expected);
  EXPECT_EQ(exit_code_of({answer(kTwin, rounds(1)), outcome}), ExitCode::kFailed);
  const std::string text = trials_markdown({outcome});
  EXPECT_TRUE(text.starts_with("# FAIL")) << text;
  EXPECT_NE(text.find("0 of 1 faults caught"), std::string::npos) << text;
  EXPECT_NE(text.find("must be a regression of images_per_s"), std::string::npos) << text;
}

TEST(SelfTestTrial, of_a_fault_that_something_else_noticed_is_red) {
  const TrialOutcome outcome = answer({"a leak", "made-up rounds", "leaked_bytes"}, rounds(0.9));
  EXPECT_FALSE(outcome.caught);
  EXPECT_FALSE(outcome.as_expected);
}

TEST(SelfTestTrial, of_a_twin_is_red_when_it_does_not_pass) {
  EXPECT_TRUE(answer(kTwin, rounds(1)).as_expected);
  const TrialOutcome alarm = answer(kTwin, rounds(0.9));
  EXPECT_TRUE(alarm.caught);
  EXPECT_FALSE(alarm.as_expected);
  const TrialOutcome undecided = answer(kTwin, rounds(0.999, 2));
  EXPECT_EQ(undecided.comparison.verdict, CompareVerdict::kTooFewPairs);
  EXPECT_FALSE(undecided.as_expected);
}

TEST(SelfTestTrial, of_nothing_proves_nothing) {
  EXPECT_EQ(exit_code_of(std::vector<TrialOutcome>{}), ExitCode::kFailed);
}

TEST(SelfTestTrial, tables_show_every_fault_and_who_judged_it) {
  const std::string text =
      trials_markdown({answer(kTwin, rounds(1)), answer(kSlower, rounds(0.9))});
  EXPECT_TRUE(text.starts_with("# PASS")) << text;
  EXPECT_NE(text.find("1 of 1 faults caught, 1 of 1 untouched twins passed."), std::string::npos)
      << text;
  EXPECT_NE(text.find("| every step longer | made-up rounds | images_per_s | REGRESSION | yes"),
            std::string::npos)
      << text;
}

std::vector<reports::NamedResult> all_runs() {
  RecordedRounds rounds = recorded_rounds();
  std::vector<reports::NamedResult> runs = rounds.base.runs;
  runs.insert(runs.end(), rounds.candidate.runs.begin(), rounds.candidate.runs.end());
  return runs;
}

TEST(RecordedRounds, are_believable_results) {
  for (const reports::NamedResult& run : all_runs()) {
    EXPECT_EQ(run.result.exit.code, 0) << run.name;
    for (const reports::Finding& finding : reports::check_values(run.result, run.name)) {
      ADD_FAILURE() << finding.file << ": " << finding.rule << ": " << finding.words;
    }
  }
}

TEST(RecordedRounds, are_of_one_clean_build) {
  std::set<std::string> binaries;
  for (const reports::NamedResult& run : all_runs()) {
    EXPECT_FALSE(run.result.provenance.git_dirty) << run.name;
    EXPECT_FALSE(run.result.provenance.git_commit.empty()) << run.name;
    binaries.insert(run.result.provenance.binary_sha256);
  }
  EXPECT_EQ(binaries.size(), 1);
}

TEST(RecordedRounds, are_enough_for_the_gates_that_judge_them) {
  const RecordedRounds rounds = recorded_rounds();
  const reports::StochasticOptions judging;
  const auto gates = static_cast<int64_t>(reports::gated_metrics().size());
  const auto pairs = static_cast<int64_t>(rounds.base.runs.size());
  EXPECT_GE(pairs, reports::fewest_pairs(judging.alpha, gates));
  EXPECT_EQ(rounds.candidate.runs.size(), rounds.base.runs.size());
}

TEST(RecordedRounds, were_made_in_turns) {
  const RecordedRounds rounds = recorded_rounds();
  for (size_t i = 1; i < rounds.base.runs.size(); ++i) {
    const std::string& earlier = rounds.candidate.runs[i - 1].result.created_utc;
    const std::string& later = rounds.base.runs[i].result.created_utc;
    EXPECT_LT(earlier, later) << "round " << i + 1;
  }
}

TEST(RecordedRounds, vary_from_run_to_run) {
  std::set<double> medians;
  for (const reports::NamedResult& run : all_runs()) medians.insert(run.result.samples.step_s[0]);
  EXPECT_EQ(medians.size(), all_runs().size());
}

double metric(const reports::Result& result, const std::string& name) {
  return reports::find_metric(result, name)->value.value();
}

TEST(AlteredSides, slowed_by_nothing_are_the_recorded_ones) {
  const reports::Side side = recorded_rounds().candidate;
  const reports::Side same = slowed(side, 0);
  ASSERT_EQ(same.runs.size(), side.runs.size());
  for (size_t i = 0; i < side.runs.size(); ++i) {
    EXPECT_EQ(reports::to_json(same.runs[i].result), reports::to_json(side.runs[i].result));
  }
}

TEST(AlteredSides, have_no_metric_that_is_newer_than_the_recording) {
  reports::Side side = recorded_rounds().candidate;
  for (reports::NamedResult& run : side.runs) {
    std::erase_if(run.result.metrics, [](const auto& one) { return one.name == "ema_s"; });
  }
  for (const reports::NamedResult& run : slowed(side, 0).runs) {
    EXPECT_EQ(reports::find_metric(run.result, "ema_s"), nullptr);
    EXPECT_NE(reports::find_metric(run.result, "step_s"), nullptr);
  }
}

TEST(AlteredSides, slowed_take_that_much_longer_in_every_phase_and_are_otherwise_the_same) {
  const reports::Result before = recorded_rounds().candidate.runs.front().result;
  const reports::Result after = slowed(recorded_rounds().candidate, 0.05).runs.front().result;
  for (size_t i = 0; i < before.samples.step_s.size(); ++i) {
    EXPECT_DOUBLE_EQ(after.samples.step_s[i], 1.05 * before.samples.step_s[i]);
    EXPECT_DOUBLE_EQ(after.samples.forward_s[i], 1.05 * before.samples.forward_s[i]);
  }
  EXPECT_DOUBLE_EQ(metric(after, "images_per_s"), metric(before, "images_per_s") / 1.05);
  EXPECT_DOUBLE_EQ(metric(after, "backward_s"), metric(before, "backward_s") * 1.05);
  EXPECT_EQ(metric(after, "val_loss"), metric(before, "val_loss"));
  EXPECT_EQ(after.samples.loss, before.samples.loss);
}

namespace fs = std::filesystem;
using reports::CompareVerdict;

SelfTestTrials recorded_only() {
  SelfTestTrials trials = shipped_self_test();
  trials.real.clear();
  return trials;
}

/// The twin and one fault.
SelfTestTrials real_only(const std::string& name) {
  SelfTestTrials trials = shipped_self_test();
  trials.recorded.clear();
  std::erase_if(trials.real, [&](const RealTrial& trial) {
    return trial.name != "real-twin" && trial.name != name;
  });
  return trials;
}

bool judged_by(const TrialOutcome& outcome, const std::string& metric) {
  return std::count(outcome.judged_by.begin(), outcome.judged_by.end(), metric) == 1;
}

std::vector<std::string> failed_gates(const fs::path& run) {
  std::vector<std::string> names;
  for (const reports::Gate& gate : reports::read_result(run / "result.json").gates) {
    if (gate.verdict == reports::Verdict::kFail) names.push_back(gate.name);
  }
  return names;
}

TEST(SelfTest, catches_slow_downs_of_recorded_rounds_and_passes_the_twin) {
  const test::TemporaryFolder folder;
  const auto outcomes = run_self_test(recorded_only(), folder.path());
  ASSERT_EQ(outcomes.size(), 3);
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kPass) << trials_markdown(outcomes);
  for (const TrialOutcome& outcome : outcomes) {
    const bool twin = outcome.trial.judge.empty();
    EXPECT_EQ(outcome.caught, !twin) << outcome.trial.fault;
    const std::vector<std::string> judge = {"images_per_s"};
    EXPECT_EQ(outcome.judged_by, twin ? std::vector<std::string>{} : judge);
  }
  EXPECT_TRUE(fs::exists(folder.path() / "comparisons" / "slower-5.md"));
  EXPECT_TRUE(fs::exists(folder.path() / "comparisons" / "recorded-twin.json"));
}

TEST(SelfTest, says_the_same_every_time_about_recorded_rounds) {
  const test::TemporaryFolder folder;
  const std::string once = trials_markdown(run_self_test(recorded_only(), folder.path()));
  EXPECT_EQ(once, trials_markdown(run_self_test(recorded_only(), folder.path())));
}

TEST(SelfTest, is_red_when_the_margin_is_so_wide_that_a_slow_down_passes) {
  const test::TemporaryFolder folder;
  SelfTestTrials trials = recorded_only();
  trials.judging.noise["images_per_s"].floor_frac = 0.05;  // a margin of 10 %
  const auto outcomes = run_self_test(trials, folder.path());
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kFailed);
  EXPECT_FALSE(outcomes[1].caught) << outcomes[1].trial.fault;
  EXPECT_EQ(reports::exit_code_of(outcomes[1].comparison.verdict), ExitCode::kPass);
}

TEST(SelfTest, is_red_when_the_slow_down_never_came_into_the_rounds) {
  const test::TemporaryFolder folder;
  SelfTestTrials trials = recorded_only();
  trials.recorded = {{1e-6}};
  const auto outcomes = run_self_test(trials, folder.path());
  ASSERT_EQ(outcomes.size(), 1);
  EXPECT_EQ(outcomes[0].trial.judge, "images_per_s");
  EXPECT_FALSE(outcomes[0].caught);
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kFailed);
}

TEST(SelfTest, is_red_when_there_is_so_much_noise_that_nothing_is_judged) {
  const test::TemporaryFolder folder;
  SelfTestTrials trials = recorded_only();
  trials.judging.noise["images_per_s"].floor_frac = 0.06;
  const auto outcomes = run_self_test(trials, folder.path());
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kFailed);
  for (const TrialOutcome& outcome : outcomes) EXPECT_FALSE(outcome.as_expected);
}

TEST(SelfTest, is_red_when_the_rounds_are_too_few) {
  const test::TemporaryFolder folder;
  SelfTestTrials trials = recorded_only();
  trials.rounds.base.runs.resize(5);
  trials.rounds.candidate.runs.resize(5);
  EXPECT_EQ(exit_code_of(run_self_test(trials, folder.path())), ExitCode::kFailed);
}

TEST(SelfTest, catches_a_leak_in_a_real_run) {
  const test::TemporaryFolder folder;
  const auto outcomes = run_self_test(real_only("leak"), folder.path());
  ASSERT_EQ(outcomes.size(), 2);
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kPass) << trials_markdown(outcomes);
  EXPECT_TRUE(judged_by(outcomes[1], "peak_bytes"));
  EXPECT_TRUE(judged_by(outcomes[1], "absolute gates"));
  const reports::Result result = reports::read_result(folder.path() / "leak" / "result.json");
  EXPECT_EQ(result.memory.leaked_bytes, int64_t{16} << 20);
  EXPECT_NE(result.title.find("broken on purpose"), std::string::npos) << result.title;
  const reports::Result twin = reports::read_result(folder.path() / "real-twin" / "result.json");
  EXPECT_EQ(result.determinism.weights_sha256, twin.determinism.weights_sha256);
}

TEST(SelfTest, catches_a_biased_loss_in_a_real_run_by_its_trace) {
  const test::TemporaryFolder folder;
  const auto outcomes = run_self_test(real_only("loss-bias"), folder.path());
  ASSERT_EQ(outcomes.size(), 2);
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kPass) << trials_markdown(outcomes);
  EXPECT_EQ(outcomes[1].judged_by, std::vector<std::string>{"loss trace"});
  EXPECT_TRUE(failed_gates(folder.path() / "loss-bias").empty());
}

TEST(SelfTest, catches_a_byte_without_an_owner_in_a_real_run) {
  const test::TemporaryFolder folder;
  const auto outcomes = run_self_test(real_only("lost-byte"), folder.path());
  ASSERT_EQ(outcomes.size(), 2);
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kPass) << trials_markdown(outcomes);
  EXPECT_TRUE(judged_by(outcomes[1], "peak: weights"));
  EXPECT_EQ(failed_gates(folder.path() / "lost-byte"),
            std::vector<std::string>{"closure_boundaries"});
}

TEST(SelfTest, is_red_when_the_fault_never_came_into_the_run) {
  const test::TemporaryFolder folder;
  SelfTestTrials trials = real_only("leak");
  trials.real.back().fault = {};
  const auto outcomes = run_self_test(trials, folder.path());
  EXPECT_TRUE(outcomes[0].as_expected);
  EXPECT_FALSE(outcomes[1].as_expected);
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kFailed);
}

}  // namespace
}  // namespace noisemark::suite
