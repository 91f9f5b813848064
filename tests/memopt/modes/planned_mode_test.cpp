#include "memopt/modes/planned_mode.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/mse_loss.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cstring>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "tests/memopt/nets.h"
#include "tests/memopt/trained_net.h"

namespace noisemark::memopt {
namespace {

using test::StepOutcome;

class PlannedModes : public testing::TestWithParam<const char*> {
 protected:
  PlannedModes() {
    at::manual_seed(7);
    x_ = at::randn({2, 3, 16, 16});
    target_ = at::randn({2, 3, 16, 16});
  }

  StepOutcome step(Mode& mode, int64_t number, uint64_t seed, bool bf16 = false) {
    at::manual_seed(seed);
    net_.zero_grad();
    mode.begin_step(number);
    const int64_t before = cpu_allocation_source().live_bytes();
    at::Tensor loss;
    {
      const SavedTensorScope scope(mode);
      at::autocast::set_autocast_enabled(at::kCPU, bf16);
      const at::Tensor prediction = net_.forward(x_);
      at::autocast::set_autocast_enabled(at::kCPU, false);
      at::autocast::clear_cache();
      loss = at::mse_loss(prediction.to(at::kFloat), target_);
    }
    StepOutcome outcome;
    outcome.held_bytes = cpu_allocation_source().live_bytes() - before;
    loss.backward();
    mode.end_step();
    outcome.loss = loss.detach();
    outcome.gradients = net_.gradients();
    net_.zero_grad();
    return outcome;
  }

  void expect_same_gradients_as_none(bool bf16) {
    const std::unique_ptr<Mode> none = make_mode("none");
    const std::unique_ptr<Mode> mode = make_mode(GetParam());
    none->attach(net_.view());
    mode->attach(net_.view());
    for (int64_t number = 1; number <= 6; ++number) {
      const auto seed = static_cast<uint64_t>(100 + number);
      test::expect_same(step(*none, number, seed, bf16), step(*mode, number, seed, bf16));
    }
    const PlannedModeReport report = dynamic_cast<PlannedMode&>(*mode).report();
    EXPECT_EQ(report.missing_reason, "");
    EXPECT_GT(report.counters.recipes_run, 0);
    EXPECT_EQ(report.counters.departures, 0);
    EXPECT_EQ(report.counters.recipes_run_again, 0);
  }

  test::BlockNet net_;
  at::Tensor x_, target_;
};

TEST_P(PlannedModes, change_no_bit_of_loss_or_gradient) {
  expect_same_gradients_as_none(false);
}

TEST_P(PlannedModes, change_no_bit_of_loss_or_gradient_under_autocast) {
  expect_same_gradients_as_none(true);
}

TEST_P(PlannedModes, hold_fewer_bytes_once_they_are_steady) {
  const std::unique_ptr<Mode> none = make_mode("none");
  const std::unique_ptr<Mode> mode = make_mode(GetParam());
  none->attach(net_.view());
  mode->attach(net_.view());
  const int64_t all = step(*none, 1, 1).held_bytes;
  for (int64_t number = 1; number <= mode->forwards_until_steady(); ++number) {
    step(*mode, number, 1);
  }
  const int64_t held = step(*mode, mode->forwards_until_steady() + 1, 1).held_bytes;
  EXPECT_LT(held, all * 3 / 4);
}

TEST_P(PlannedModes, leave_no_byte_behind) {
  const std::unique_ptr<Mode> mode = make_mode(GetParam());
  mode->attach(net_.view());
  for (int64_t number = 1; number <= 4; ++number) step(*mode, number, 1);
  const int64_t before = cpu_allocation_source().live_bytes();
  step(*mode, 5, 1);
  EXPECT_EQ(cpu_allocation_source().live_bytes(), before);
}

TEST_P(PlannedModes, finish_a_step_that_departs_from_the_recorded_one) {
  const std::unique_ptr<Mode> none = make_mode("none");
  const std::unique_ptr<Mode> mode = make_mode(GetParam());
  none->attach(net_.view());
  mode->attach(net_.view());
  for (int64_t number = 1; number <= 4; ++number) step(*mode, number, 1);
  net_.dropout = 0;  // no dropout: other operators, other saved tensors
  test::expect_same(step(*none, 5, 5), step(*mode, 5, 5));
  EXPECT_EQ(dynamic_cast<PlannedMode&>(*mode).report().counters.departures, 1);
  net_.dropout = 0.1;
  test::expect_same(step(*none, 6, 6), step(*mode, 6, 6));
  EXPECT_EQ(dynamic_cast<PlannedMode&>(*mode).report().counters.departures, 1);
}

TEST_P(PlannedModes, refuse_a_weight_that_changed_before_backward) {
  const std::unique_ptr<Mode> mode = make_mode(GetParam());
  mode->attach(net_.view());
  for (int64_t number = 1; number <= 4; ++number) step(*mode, number, 1);
  mode->begin_step(5);
  at::Tensor loss;
  {
    const SavedTensorScope scope(*mode);
    loss = net_.forward(x_).square().mean();
  }
  {
    const c10::NoGradGuard no_grad;
    for (const auto& [name, parameter] : net_.view().parameters) at::Tensor(parameter).mul_(2);
  }
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST_P(PlannedModes, give_the_tensors_again_when_the_graph_is_retained) {
  const std::unique_ptr<Mode> mode = make_mode(GetParam());
  mode->attach(net_.view());
  for (int64_t number = 1; number <= 4; ++number) step(*mode, number, 1);
  const StepOutcome once = step(*mode, 5, 5);
  at::manual_seed(5);
  mode->begin_step(6);
  at::Tensor loss;
  {
    const SavedTensorScope scope(*mode);
    loss = at::mse_loss(net_.forward(x_), target_);
  }
  loss.backward({}, /*retain_graph=*/true);
  net_.zero_grad();
  loss.backward();
  mode->end_step();
  const std::vector<at::Tensor> twice = net_.gradients();
  for (size_t i = 0; i < twice.size(); ++i) EXPECT_TRUE(twice[i].equal(once.gradients[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Lossless, PlannedModes,
                         testing::Values("mirror", "mirror:sqrt", "mirror+echo", "mirror:sqrt+echo",
                                         "echo", "echo+attn", "echo+gist"));

}  // namespace
}  // namespace noisemark::memopt
