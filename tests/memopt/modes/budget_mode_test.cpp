#include <ATen/ops/linalg_vector_norm.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "memopt/modes/budget_mode.h"
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

/// The planner's answer when no budget presses. Nothing of it stays, because what is live counts.
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

// Budgets that allow an error of the gradient.

/// Room for what a second session's costs, which are times, may choose otherwise.
int64_t with_room(int64_t bytes) {
  return bytes * 105 / 100;
}

/// The bytes that BudgetTooSmall names.
int64_t smallest_budget(BudgetTarget target, std::optional<double> error) {
  try {
    Budgeted impossible({target, 1, error});
    static_cast<void>(impossible.training().gradients());
  } catch (const BudgetTooSmall& too_small) {
    return too_small.smallest_bytes();
  }
  ADD_FAILURE() << "a budget of one byte was met";
  return 0;
}

int64_t of(BudgetTarget target, const test::StepMemory& memory) {
  return target == BudgetTarget::kPeak ? memory.peak_bytes : memory.peak_saved_bytes;
}

class BudgetWithError : public testing::TestWithParam<BudgetTarget> {};

TEST_P(BudgetWithError, meets_what_no_lossless_plan_does) {
  const int64_t lossless = smallest_budget(GetParam(), {});
  const int64_t smallest = smallest_budget(GetParam(), 0.05);
  ASSERT_LT(with_room(smallest), lossless);
  const int64_t bytes = with_room(smallest);
  Budgeted budgeted({GetParam(), bytes, 0.05});
  const int64_t measured = of(GetParam(), budgeted.training().measured_step());
  EXPECT_LE(measured, bytes);
  ASSERT_TRUE(budgeted.mode().answer().has_value());
  const int64_t predicted = budgeted.mode().answer()->point.of(GetParam());
  EXPECT_LE(predicted, bytes);
  EXPECT_GE(predicted, measured * 100 / 103);
}

TEST_P(BudgetWithError, is_refused_where_the_error_is_too_small_with_the_budget_that_is_not) {
  const int64_t smallest = smallest_budget(GetParam(), 0.05);
  const int64_t careful = smallest_budget(GetParam(), 1e-7);
  EXPECT_GT(careful, with_room(smallest));
  EXPECT_THROW(
      {
        Budgeted refused({GetParam(), smallest, 1e-7});
        static_cast<void>(refused.training().gradients());
      },
      BudgetTooSmall);
  Budgeted met({GetParam(), with_room(careful), 1e-7});
  EXPECT_LE(of(GetParam(), met.training().measured_step()), with_room(careful));
}

INSTANTIATE_TEST_SUITE_P(Targets, BudgetWithError,
                         testing::Values(BudgetTarget::kPeak, BudgetTarget::kPeakSaved),
                         [](const auto& info) {
                           return info.param == BudgetTarget::kPeak ? "peak" : "peak_saved";
                         });

double relative_distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(at::linalg_vector_norm(a[i] - b[i]).item<double>(), 2);
    size += std::pow(at::linalg_vector_norm(b[i]).item<double>(), 2);
  }
  return std::sqrt(difference / size);
}

// MeasuredTraining does not change its weights, so a later step differs from the one that was
// measured in its dropout alone.
TEST(BudgetError, of_a_step_is_what_was_measured_and_within_the_bound) {
  const int64_t lossless = smallest_budget(BudgetTarget::kPeakSaved, {});
  for (const double bound : {0.1, 0.03, 0.01}) {
    const Budget budget{BudgetTarget::kPeakSaved,
                        with_room(smallest_budget(BudgetTarget::kPeakSaved, bound)), bound};
    ASSERT_LT(budget.bytes, lossless) << "else nothing need be rounded";
    Budgeted budgeted(budget);
    ASSERT_TRUE(budgeted.mode().measured_error().has_value());
    EXPECT_LE(*budgeted.mode().measured_error(), bound);
    EXPECT_GT(*budgeted.mode().measured_error(), 0);
    const std::unique_ptr<Mode> none = make_mode("none");
    test::MeasuredTraining exact(*none);
    for (int64_t i = 0; i < budgeted.mode().forwards_until_steady(); ++i) {
      static_cast<void>(exact.gradients());
    }
    const double error = relative_distance(budgeted.training().gradients(), exact.gradients());
    // It is another batch's dropout, hence the factor.
    EXPECT_LE(error, 2 * *budgeted.mode().measured_error());
    EXPECT_GE(error, *budgeted.mode().measured_error() / 2);
  }
}

TEST(BudgetError, is_measured_without_changing_a_gradient) {
  BudgetMode mode({BudgetTarget::kPeakSaved, kPlenty, 0.01});
  test::MeasuredTraining measured(mode);
  const std::unique_ptr<Mode> none = make_mode("none");
  test::MeasuredTraining exact(*none);
  for (int64_t i = 0; i < mode.forwards_until_steady(); ++i) {
    const std::vector<at::Tensor> a = measured.gradients();
    const std::vector<at::Tensor> b = exact.gradients();
    for (size_t p = 0; p < a.size(); ++p) EXPECT_TRUE(a[p].equal(b[p])) << i << ' ' << p;
  }
  EXPECT_TRUE(mode.measured_error().has_value());
  EXPECT_GT(mode.probed_passes(), 2);
}

TEST(BudgetError, is_measured_by_complex_gradients_too) {
  at::manual_seed(4);
  const at::Tensor spectral = at::randn({16, 16}, at::kComplexFloat).mul_(0.2).requires_grad_();
  const at::Tensor weight = at::randn({32, 32}).mul_(0.2).requires_grad_();
  const at::Tensor x = at::randn({64, 32});
  BudgetMode mode({BudgetTarget::kPeakSaved, 60 << 10, 0.1});
  mode.attach({{{"spectral.weight", spectral}, {"first.weight", weight}}, {}, 1});
  for (int64_t step = 1; step <= 6; ++step) {
    mode.begin_step(step);
    at::Tensor loss;
    {
      const SavedTensorScope scope(mode);
      const at::Tensor h = at::silu(at::gelu(at::linear(x, weight)) * 1.5);
      const at::Tensor z = at::view_as_complex(h.view({64, 16, 2})).matmul(spectral);
      loss = at::silu(at::view_as_real(z)).square().mean();
    }
    loss.backward();
    mode.end_step();
    spectral.mutable_grad() = weight.mutable_grad() = at::Tensor();
  }
  EXPECT_EQ(mode.report().missing_reason, "");
  EXPECT_TRUE(mode.measured_error().has_value());
  EXPECT_GT(mode.report().followed_passes, 0);
}

TEST(BudgetError, is_not_accepted_where_memory_suffices_without) {
  Budgeted plenty({BudgetTarget::kPeak, kPlenty, 0.01});
  EXPECT_EQ(plenty.mode().measured_error(), 0);
  EXPECT_EQ(plenty.mode().answer()->point.cost_ns, 0);
}

}  // namespace
}  // namespace noisemark::memopt
