#include "suite/selftest/selftest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reports/gate.h"
#include "reports/json_io.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::CompareVerdict;

SelfTestPlan recorded_only() {
  SelfTestPlan plan = shipped_self_test();
  plan.real.clear();
  return plan;
}

/// The twin and one fault.
SelfTestPlan real_only(const std::string& name) {
  SelfTestPlan plan = shipped_self_test();
  plan.recorded.clear();
  std::erase_if(plan.real, [&](const RealTrial& trial) {
    return trial.name != "real-twin" && trial.name != name;
  });
  return plan;
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
  SelfTestPlan plan = recorded_only();
  plan.judging.noise["images_per_s"].floor_frac = 0.05;  // a margin of 10 %
  const auto outcomes = run_self_test(plan, folder.path());
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kFailed);
  EXPECT_FALSE(outcomes[1].caught) << outcomes[1].trial.fault;
  EXPECT_EQ(reports::exit_code_of(outcomes[1].comparison.verdict), ExitCode::kPass);
}

TEST(SelfTest, is_red_when_the_slow_down_never_came_into_the_rounds) {
  const test::TemporaryFolder folder;
  SelfTestPlan plan = recorded_only();
  plan.recorded = {{1e-6}};
  const auto outcomes = run_self_test(plan, folder.path());
  ASSERT_EQ(outcomes.size(), 1);
  EXPECT_EQ(outcomes[0].trial.judge, "images_per_s");
  EXPECT_FALSE(outcomes[0].caught);
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kFailed);
}

TEST(SelfTest, is_red_when_there_is_so_much_noise_that_nothing_is_judged) {
  const test::TemporaryFolder folder;
  SelfTestPlan plan = recorded_only();
  plan.judging.noise["images_per_s"].floor_frac = 0.06;
  const auto outcomes = run_self_test(plan, folder.path());
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kFailed);
  for (const TrialOutcome& outcome : outcomes) EXPECT_FALSE(outcome.as_expected);
}

TEST(SelfTest, is_red_when_the_rounds_are_too_few) {
  const test::TemporaryFolder folder;
  SelfTestPlan plan = recorded_only();
  plan.rounds.base.runs.resize(5);
  plan.rounds.candidate.runs.resize(5);
  EXPECT_EQ(exit_code_of(run_self_test(plan, folder.path())), ExitCode::kFailed);
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
  SelfTestPlan plan = real_only("leak");
  plan.real.back().fault = {};
  const auto outcomes = run_self_test(plan, folder.path());
  EXPECT_TRUE(outcomes[0].as_expected);
  EXPECT_FALSE(outcomes[1].as_expected);
  EXPECT_EQ(exit_code_of(outcomes), ExitCode::kFailed);
}

}  // namespace
}  // namespace noisemark::suite
