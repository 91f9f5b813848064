// Budgets that allow an error of the gradient.

#include <gtest/gtest.h>

#include <ATen/ops/linalg_vector_norm.h>

#include <cmath>
#include <string>
#include <vector>

#include "memopt/budget_mode.h"
#include "tests/memopt/measured_step.h"

namespace noisemark::memopt {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 40;
/// Room for what a second session's costs, which are times, may choose otherwise.
int64_t with_room(int64_t bytes) {
  return bytes * 105 / 100;
}

class Budgeted {
 public:
  explicit Budgeted(const Budget& budget) : mode_(budget), training_(mode_) { training_.warm_up(); }
  BudgetMode& mode() { return mode_; }
  test::MeasuredTraining& training() { return training_; }

 private:
  BudgetMode mode_;
  test::MeasuredTraining training_;
};

/// What BudgetTooSmall names.
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
    // Of another batch's dropout, hence the factor.
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

TEST(BudgetError, is_not_accepted_where_memory_suffices_without) {
  Budgeted plenty({BudgetTarget::kPeak, kPlenty, 0.01});
  EXPECT_EQ(plenty.mode().measured_error(), 0);
  EXPECT_EQ(plenty.mode().answer()->point.cost_ns, 0);
}

}  // namespace
}  // namespace noisemark::memopt
