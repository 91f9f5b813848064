// The smoke suite runs every memory mode that there is.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "memopt/modes/budget.h"
#include "memopt/modes/mode.h"
#include "memopt/modes/mode_grammar.h"
#include "suite/run/passes/mode_figures.h"
#include "suite/run/run.h"
#include "suite/run/spec/plan.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

/// The table of modes shows those with a SIZE by an example of each kind.
std::string kind_of(const std::string& mode) {
  if (mode.find(",host=") != std::string::npos) return "a bound on host memory";
  if (!mode.starts_with(memopt::kBudgetPrefix)) return mode;
  return memopt::parse_budget(mode).error ? "a budget that allows an error" : "an exact budget";
}

std::vector<PlannedRun> runs_of(const std::string& suite) {
  RunOptions options;
  options.id = suite;
  options.device = "cpu";
  return plan_runs(options);
}

std::vector<PlannedRun> smoke_runs() {
  return runs_of("smoke");
}

std::set<std::string> kinds_run(const std::string& id, const std::vector<PlannedRun>& runs) {
  std::set<std::string> kinds;
  for (const PlannedRun& run : runs) {
    if (run.id == id) kinds.insert(kind_of(run.spec.mode.name));
  }
  return kinds;
}

class SmokeSuite : public testing::TestWithParam<const char*> {};

TEST_P(SmokeSuite, runs_every_mode_of_the_table) {
  const std::set<std::string> kinds = kinds_run(GetParam(), smoke_runs());
  for (const memopt::ModeEntry& entry : memopt::modes()) {
    EXPECT_TRUE(kinds.contains(kind_of(std::string(entry.name)))) << "missing: " << entry.name;
  }
}

TEST_P(SmokeSuite, has_budgets_that_can_be_met_and_take_a_plan) {
  int budgets = 0;
  for (const PlannedRun& run : smoke_runs()) {
    if (run.id != GetParam() || !run.spec.mode.name.starts_with(memopt::kBudgetPrefix)) continue;
    ++budgets;
    const std::string budget = run.spec.mode.name.substr(memopt::kBudgetPrefix.size());
    const test::Finished plan =
        test::run_noisemark({"plan", run.id, "--device", "cpu", "--budget", budget});
    EXPECT_EQ(plan.code, 0) << run.spec.mode.name << '\n' << plan.both();
    const bool treated = plan.out.find("| recomputed") != std::string::npos ||
                         plan.out.find("| encoded by ") != std::string::npos;
    EXPECT_TRUE(treated) << run.spec.mode.name << plan.out;
  }
  EXPECT_GE(budgets, 2);
}

/// Seeds under which the suite "cpu" trains a benchmark in a mode.
std::vector<uint64_t> seeds_of(const std::string& id, const std::string& mode) {
  std::vector<uint64_t> seeds;
  for (const PlannedRun& run : runs_of("cpu")) {
    if (run.id == id && run.spec.mode.name == mode) seeds.push_back(run.seed);
  }
  return seeds;
}

TEST(CpuSuite, judges_every_lossy_mode_over_the_same_seeds_as_none) {
  for (const std::string id : {"gmm16-ho-long@cpu", "gmm16-ho-relu-long@cpu"}) {
    const std::vector<uint64_t> seeds = seeds_of(id, "none");
    EXPECT_EQ(seeds, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
    const std::set<std::string> kinds = kinds_run(id, runs_of("cpu"));
    for (const memopt::ModeEntry& entry : memopt::modes()) {
      if (entry.lossless) continue;
      EXPECT_TRUE(kinds.contains(kind_of(std::string(entry.name)))) << "missing: " << entry.name;
    }
    for (const PlannedRun& run : runs_of("cpu")) {
      if (run.id != id) continue;
      EXPECT_EQ(seeds_of(id, run.spec.mode.name), seeds) << run.spec.mode.name;
    }
  }
  EXPECT_EQ(seeds_of("gmm16-ho@cpu", "none").size(), 1U);
}

TEST(CpuSuite, leaves_out_every_other_pass_of_what_it_judges_but_one_certificate_of_a_mode) {
  RunOptions options;
  options.id = "cpu";
  options.device = "cpu";
  for (const PlannedRun& run : plan_runs(options)) {
    const auto arguments = child_arguments(options, run, "out");
    const auto has = [&](const char* flag) {
      return std::count(arguments.begin(), arguments.end(), flag) == 1;
    };
    EXPECT_EQ(has("--no-memory"), run.judged) << run.id;
    EXPECT_EQ(has("--no-certificate"), run.judged && run.seed != 0) << run.id;
    EXPECT_EQ(run.judged, run.seeds > 1) << run.id;
  }
}

TEST(CpuSuite, has_a_bound_of_its_own_for_the_gradient_under_every_lossy_mode) {
  for (const memopt::ModeEntry& entry : memopt::modes()) {
    if (entry.lossless) continue;
    const double bound = resolve_mode(std::string(entry.name)).gradient_bound;
    EXPECT_GT(bound, 0) << entry.name;
    EXPECT_EQ(bound == memopt::kLoosestGradientBound, entry.name == "q2") << entry.name;
  }
}

TEST(CpuSuite, bounds_a_budget_by_twice_the_error_that_it_allows) {
  EXPECT_EQ(resolve_mode("budget:17MiB,error=0.02").gradient_bound, 0.04);
  EXPECT_EQ(resolve_mode("budget:17MiB").gradient_bound, 0);
}

TEST(CpuSuite, ends_with_the_verdict_on_quality_where_that_is_worse) {
  EXPECT_EQ(with_quality(ExitCode::kPass, ExitCode::kFailed, true), ExitCode::kFailed);
  EXPECT_EQ(with_quality(ExitCode::kPass, ExitCode::kInconclusive, true), ExitCode::kInconclusive);
  EXPECT_EQ(with_quality(ExitCode::kCannotRunHere, ExitCode::kFailed, true), ExitCode::kFailed);
  EXPECT_EQ(with_quality(ExitCode::kFailed, ExitCode::kPass, true), ExitCode::kFailed);
  EXPECT_EQ(with_quality(ExitCode::kPass, ExitCode::kFailed, false), ExitCode::kPass);
}

INSTANTIATE_TEST_SUITE_P(Nets, SmokeSuite, testing::Values("gmm16-ho@cpu", "gmm16-ho-relu@cpu"),
                         [](const testing::TestParamInfo<const char*>& tested) {
                           const bool relu =
                               std::string(tested.param).find("relu") != std::string::npos;
                           return std::string(relu ? "relu" : "silu");
                         });

}  // namespace
}  // namespace noisemark::suite
