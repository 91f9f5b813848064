// Budgets on the U-Net of Ho et al. as `noisemark run ho-cifar10@cpu` trains it, with generated
// images and a smaller batch: how long planning takes, and what its plans hold.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memopt/modes/budget_mode.h"
#include "suite/probes/memory_probe.h"
#include "suite/run/passes/owners.h"
#include "suite/run/passes/session.h"
#include "suite/run/spec/plan.h"
#include "tests/memopt/followed_plans.h"

namespace noisemark::suite {
namespace {

using memopt::BudgetTarget;
using memopt::Planner;
using memopt::PlanPoint;

constexpr int64_t kPlenty = int64_t{1} << 40;

SessionOptions options_of(int64_t batch) {
  RunOptions options;
  options.id = "ho-cifar10@cpu";
  options.device = "cpu";
  options.threads = 1;
  options.sets = {"data.name=synthetic", "data.train_samples=16", "train.steps=64",
                  "train.batch=" + std::to_string(batch)};
  const PlannedRun plan = plan_runs(options).front();
  configure_process(plan.spec);
  return session_options(options, plan);
}

/// The trainer of a run, under a mode of the test's own.
class FullNet {
 public:
  FullNet(memopt::Mode& mode, int64_t batch)
      : mode_(mode), session_(make_session(options_of(batch))) {
    view_.parameters = trainer().parameters();
    view_.buffers = trainer().model().buffers();
    attach();
  }

  /// The mode begins anew.
  void attach() { mode_.attach(view_); }

  void warm_up() {
    for (int64_t i = 0; i < mode_.forwards_until_steady(); ++i) static_cast<void>(measured_step());
  }

  reports::MemorySection measured_step() {
    MemoryProbe probe(mode_, [this] { return owner_roots(trainer()); });
    const int64_t step = trainer().next_step();
    probe.arm(step);
    mode_.begin_step(step);
    static_cast<void>(trainer().step({&probe}, &probe.sink()));
    mode_.end_step();
    return probe.section();
  }

 private:
  [[nodiscard]] Trainer& trainer() { return *session_.trainer; }

  memopt::Mode& mode_;
  Session session_;  ///< a session under mode "none"
  memopt::ModelView view_;
};

/// Budgets from the largest to the smallest that can be met, which is the last of them; a few are
/// larger than what is held when everything is kept.
std::vector<int64_t> random_budgets(const Planner& planner, int count) {
  const int64_t smallest = planner.smallest_bytes();
  const int64_t largest = planner.curve().front().peak_bytes;
  std::mt19937_64 random(17);
  std::vector<int64_t> budgets = {smallest};
  for (int i = 1; i < count; ++i) {
    const auto share = static_cast<int64_t>(random() % 10'000);
    budgets.push_back(smallest + (largest - smallest) * share / 9'500);
  }
  std::sort(budgets.rbegin(), budgets.rend());
  return budgets;
}

TEST(FullNetBudgets, fifty_at_random_are_never_exceeded_and_peaks_fall_with_them) {
  memopt::test::FollowedPlans mode(BudgetTarget::kPeak);
  // Fewer images would have the optimizer and the gradients leave budgets little to decide.
  FullNet net(mode, 4);
  net.warm_up();
  const Planner& planner = mode.planner();
  int64_t before = std::numeric_limits<int64_t>::max();
  std::vector<std::pair<int64_t, PlanPoint>> asked;
  std::set<int64_t> peaks;
  for (const int64_t budget : random_budgets(planner, 50)) {
    const auto answer = planner.within(budget);
    ASSERT_TRUE(answer.has_value()) << budget;
    EXPECT_LE(answer->point.peak_bytes, budget);
    EXPECT_LE(answer->point.peak_bytes, before) << "at " << budget;
    before = answer->point.peak_bytes;
    peaks.insert(before);
    asked.emplace_back(budget, answer->point);
  }
  EXPECT_GE(peaks.size(), 5U) << "fewer plans would prove little";
  before = std::numeric_limits<int64_t>::max();
  size_t followed = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto& [budget, point] = asked[i];
    // The smallest of the budgets that get one plan has least room for it.
    if (i + 1 < asked.size() && asked[i + 1].second.same_plan_as(point)) continue;
    mode.follow(planner.plan(point));
    const int64_t measured = net.measured_step().peak_bytes;
    EXPECT_FALSE(mode.departed());
    EXPECT_LE(measured, budget) << "predicted " << point.peak_bytes;
    EXPECT_LE(measured, before) << "at " << budget;
    before = measured;
    ++followed;
    // The bound for every mode; 1 % is the aim.
    EXPECT_NEAR(static_cast<double>(measured), static_cast<double>(point.peak_bytes),
                0.03 * static_cast<double>(point.peak_bytes));
  }
  EXPECT_EQ(followed, peaks.size()) << "each plan of an answer";
  RecordProperty("followed_plans", std::to_string(followed));
}

/// The bound on one thread. The fastest of several is what planning takes where nothing else runs:
/// neighbours on a machine were seen to make it twice as slow for many seconds.
TEST(FullNetPlanning, takes_at_most_fifty_milliseconds) {
#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "of a program that was built to be fast";
#endif
  constexpr double kMost = 0.050;
  constexpr int kMostAttempts = 20;
  memopt::BudgetMode mode({BudgetTarget::kPeak, kPlenty});
  FullNet net(mode, 1);
  double best_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kMostAttempts && best_s > kMost; ++i) {
    net.attach();
    net.warm_up();
    ASSERT_NE(mode.planner(), nullptr) << mode.report().missing_reason;
    ASSERT_GT(mode.planner()->curve().size(), 1U);
    best_s = std::min(best_s, mode.planning_s());
  }
  RecordProperty("planning_ms", std::to_string(1000 * best_s));
  EXPECT_LE(best_s, kMost);
}

}  // namespace
}  // namespace noisemark::suite
