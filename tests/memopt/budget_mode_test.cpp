#include "memopt/budget_mode.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/memopt/measured_step.h"

namespace noisemark::memopt {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 40;

/// A budget mode that has seen its first passes.
class Budgeted {
 public:
  explicit Budgeted(const Budget& budget) : mode_(budget), training_(mode_) { training_.warm_up(); }
  BudgetMode& mode() { return mode_; }
  test::MeasuredTraining& training() { return training_; }
  test::StepMemory measured() { return training_.measured_step(); }

 private:
  BudgetMode mode_;
  test::MeasuredTraining training_;
};

/// What a planner knows when no budget presses. Nothing of it stays: what is live counts.
std::vector<PlanPoint> known_curve(BudgetTarget target) {
  Budgeted plenty({target, kPlenty});
  const std::shared_ptr<const Planner> planner = plenty.mode().planner();
  return planner == nullptr ? std::vector<PlanPoint>{} : planner->curve();
}

class BudgetTargets : public testing::TestWithParam<BudgetTarget> {
 protected:
  static int64_t measured(Budgeted& budgeted) {
    const test::StepMemory memory = budgeted.measured();
    return GetParam() == BudgetTarget::kPeak ? memory.peak_bytes : memory.peak_saved_bytes;
  }
};

TEST_P(BudgetTargets, are_never_exceeded_by_a_steady_step) {
  const std::vector<PlanPoint> curve = known_curve(GetParam());
  ASSERT_FALSE(curve.empty());
  const int64_t smallest = curve.back().of(GetParam());
  const int64_t largest = curve.front().of(GetParam());
  ASSERT_LT(smallest, largest * 4 / 5);
  std::mt19937_64 random(5);
  for (int i = 0; i < 8; ++i) {
    const auto share = static_cast<int64_t>(random() % 1000);
    const int64_t bytes = smallest * 105 / 100 + (largest - smallest) * share / 1000;
    Budgeted budgeted({GetParam(), bytes});
    EXPECT_LE(measured(budgeted), bytes);
    EXPECT_LE(budgeted.mode().answer()->point.of(GetParam()), bytes);
  }
}

TEST_P(BudgetTargets, are_predicted_within_three_percent) {
  for (const PlanPoint& point : known_curve(GetParam())) {
    Budgeted budgeted({GetParam(), budget_for(GetParam(), point.of(GetParam())) * 101 / 100});
    const int64_t bytes = measured(budgeted);
    EXPECT_LE(std::abs(budgeted.mode().answer()->point.of(GetParam()) - bytes), bytes * 3 / 100)
        << budgeted.mode().answer()->point.of(GetParam()) << " against " << bytes;
  }
}

TEST_P(BudgetTargets, change_no_bit_of_a_gradient) {
  Budgeted tight({GetParam(), known_curve(GetParam()).back().of(GetParam()) * 105 / 100});
  EXPECT_GT(tight.mode().answer()->point.cost_ns, 0);
  const std::unique_ptr<Mode> none = make_mode("none");
  test::MeasuredTraining expected(*none);
  for (int64_t i = 0; i < tight.mode().forwards_until_steady(); ++i) {
    static_cast<void>(expected.gradients());
  }
  const std::vector<at::Tensor> a = expected.gradients();
  const std::vector<at::Tensor> b = tight.training().gradients();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;
}

TEST_P(BudgetTargets, that_cannot_be_met_name_the_smallest_that_can) {
  int64_t smallest = 0;
  try {
    Budgeted impossible({GetParam(), 1});
    static_cast<void>(impossible.measured());
    FAIL() << "no exception";
  } catch (const BudgetTooSmall& error) {
    smallest = error.smallest_bytes();
  }
  Budgeted possible({GetParam(), smallest * 105 / 100});
  EXPECT_LE(measured(possible), smallest * 105 / 100);
}

TEST_P(BudgetTargets, do_not_change_what_cannot_be_made_again) {
  Budgeted plenty({GetParam(), kPlenty});
  ASSERT_NE(plenty.mode().planner(), nullptr);
  const std::vector<PlanPoint>& curve = plenty.mode().planner()->curve();
  const PlanSummary keeps = plenty.mode().report().plan;
  const std::optional<int64_t> of_plenty = plenty.mode().irreplaceable_bytes();
  ASSERT_TRUE(of_plenty);
  EXPECT_EQ(keeps.dropped_bytes, 0) << "what a budget chose to keep is no bound";
  EXPECT_LT(*of_plenty, keeps.held_bytes + keeps.encoded_from_bytes);
  Budgeted tight({GetParam(), curve.back().of(GetParam()) * 105 / 100});
  EXPECT_EQ(tight.mode().irreplaceable_bytes(), of_plenty);
  const PlanSummary least = tight.mode().report().plan;
  EXPECT_LE(*of_plenty, least.held_bytes + least.encoded_from_bytes);
}

TEST_P(BudgetTargets, time_the_plan_that_is_compared_too) {
  BudgetMode mode({GetParam(), kPlenty});
  test::MeasuredTraining training(mode);
  for (int pass = 0; pass < 2; ++pass) static_cast<void>(training.gradients());
  ASSERT_NE(mode.plan(), nullptr);
  ASSERT_EQ(mode.planner(), nullptr) << "nothing was searched yet";
  const double to_compare_s = mode.planning_s();
  EXPECT_GT(to_compare_s, 0);
  static_cast<void>(training.gradients());
  ASSERT_NE(mode.planner(), nullptr);
  EXPECT_GT(mode.planning_s(), to_compare_s);
}

INSTANTIATE_TEST_SUITE_P(Targets, BudgetTargets,
                         testing::Values(BudgetTarget::kPeak, BudgetTarget::kPeakSaved),
                         [](const auto& info) {
                           return info.param == BudgetTarget::kPeak ? "peak" : "peak_saved";
                         });

}  // namespace
}  // namespace noisemark::memopt
