// The smoke suite runs every memory mode that there is.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "memopt/budget.h"
#include "memopt/mode.h"
#include "suite/run/plan.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

/// The table of modes shows those with a SIZE by an example of each kind.
std::string kind_of(const std::string& mode) {
  if (mode.find(",host=") != std::string::npos) return "a bound on host memory";
  if (!mode.starts_with(memopt::kBudgetPrefix)) return mode;
  return memopt::parse_budget(mode).error ? "a budget that allows an error" : "an exact budget";
}

std::vector<PlannedRun> smoke_runs() {
  RunOptions options;
  options.id = "smoke";
  options.device = "cpu";
  return plan_runs(options);
}

std::set<std::string> kinds_run(const std::string& id) {
  std::set<std::string> kinds;
  for (const PlannedRun& run : smoke_runs()) {
    if (run.id == id) kinds.insert(kind_of(run.variant.mode));
  }
  return kinds;
}

class SmokeSuite : public testing::TestWithParam<const char*> {};

TEST_P(SmokeSuite, runs_every_mode_of_the_table) {
  const std::set<std::string> kinds = kinds_run(GetParam());
  for (const memopt::ModeEntry& entry : memopt::modes()) {
    EXPECT_TRUE(kinds.contains(kind_of(std::string(entry.name)))) << "missing: " << entry.name;
  }
}

TEST_P(SmokeSuite, has_budgets_that_can_be_met_and_take_a_plan) {
  int budgets = 0;
  for (const PlannedRun& run : smoke_runs()) {
    if (run.id != GetParam() || !run.variant.mode.starts_with(memopt::kBudgetPrefix)) continue;
    ++budgets;
    const std::string budget = run.variant.mode.substr(memopt::kBudgetPrefix.size());
    const test::Finished plan =
        test::run_noisemark({"plan", run.id, "--device", "cpu", "--budget", budget});
    EXPECT_EQ(plan.code, 0) << run.variant.mode << '\n' << plan.both();
    const bool treated = plan.out.find("| made again") != std::string::npos ||
                         plan.out.find("| encoded by ") != std::string::npos;
    EXPECT_TRUE(treated) << run.variant.mode << plan.out;
  }
  EXPECT_GE(budgets, 2);
}

INSTANTIATE_TEST_SUITE_P(Nets, SmokeSuite, testing::Values("gmm16-ho@cpu", "gmm16-ho-relu@cpu"),
                         [](const testing::TestParamInfo<const char*>& tested) {
                           const bool relu =
                               std::string(tested.param).find("relu") != std::string::npos;
                           return std::string(relu ? "relu" : "silu");
                         });

}  // namespace
}  // namespace noisemark::suite
