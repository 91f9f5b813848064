/// What can go wrong around a planned mode, and must not.

#include <ATen/Context.h>
#include <ATen/ops/mse_loss.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "memopt/planned_mode.h"
#include "memopt/saved_tensor_scope.h"
#include "memopt/tracking_allocator.h"
#include "tests/memopt/block_net.h"

namespace noisemark::memopt {
namespace {

/// A model with a mode of its own.
class Training {
 public:
  explicit Training(const char* mode, uint64_t seed = 11) : mode_(make_mode(mode)) {
    at::manual_seed(seed);
    net_.emplace();
    net_->dropout = 0;  // the generator is the process's, and threads would share it
    x_ = at::randn({2, 3, 8, 8});
    mode_->attach(net_->view());
  }

  std::vector<at::Tensor> step() {
    net_->zero_grad();
    mode_->begin_step(++steps_);
    at::Tensor loss;
    {
      const SavedTensorScope scope(*mode_);
      loss = net_->forward(x_).square().mean();
    }
    loss.backward();
    mode_->end_step();
    std::vector<at::Tensor> gradients = net_->gradients();
    net_->zero_grad();
    return gradients;
  }

  /// A step whose forward pass ends in an exception after the model has run.
  void step_that_fails() {
    mode_->begin_step(++steps_);
    try {
      const SavedTensorScope scope(*mode_);
      const at::Tensor prediction = net_->forward(x_);
      throw std::runtime_error("in the middle of a step");
    } catch (const std::runtime_error&) {
      mode_->end_step();
    }
  }

  Mode& mode() { return *mode_; }
  test::BlockNet& net() { return *net_; }
  at::Tensor& x() { return x_; }

 private:
  std::unique_ptr<Mode> mode_;
  std::optional<test::BlockNet> net_;
  at::Tensor x_;
  int64_t steps_ = 0;
};

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;
}

TEST(PlannedModeMishaps, a_step_that_throws_leaves_no_byte_and_the_next_is_right) {
  Training none("none");
  Training echo("mirror+echo");
  for (int i = 0; i < 4; ++i) expect_equal(none.step(), echo.step());
  const int64_t before = cpu_allocator_totals().live_bytes;
  echo.step_that_fails();
  EXPECT_EQ(cpu_allocator_totals().live_bytes, before);
  expect_equal(none.step(), echo.step());
}

TEST(PlannedModeMishaps, a_first_step_that_throws_is_not_taken_for_a_recording) {
  Training none("none");
  Training echo("echo");
  echo.step_that_fails();
  for (int i = 0; i < 5; ++i) expect_equal(none.step(), echo.step());
  EXPECT_EQ(dynamic_cast<PlannedMode&>(echo.mode()).report().missing_reason, "");
}

TEST(PlannedModeMishaps, two_models_in_turns_do_not_disturb_each_other) {
  Training none_a("none", 1);
  Training none_b("none", 2);
  Training a("echo", 1);
  Training b("mirror", 2);
  for (int i = 0; i < 5; ++i) {
    expect_equal(none_a.step(), a.step());
    expect_equal(none_b.step(), b.step());
  }
}

TEST(PlannedModeMishaps, two_threads_train_at_once) {
  Training none("none");
  const std::vector<at::Tensor> expected = none.step();
  Training a("echo");
  Training b("mirror+echo");
  std::vector<at::Tensor> of_a;
  std::vector<at::Tensor> of_b;
  const auto train = [](Training& training, std::vector<at::Tensor>& last) {
    for (int i = 0; i < 6; ++i) last = training.step();
  };
  std::thread other(train, std::ref(b), std::ref(of_b));
  train(a, of_a);
  other.join();
  expect_equal(of_a, expected);
  expect_equal(of_b, expected);
}

TEST(PlannedModeMishaps, channels_last_memory_is_made_again_as_it_was) {
  Training none("none");
  Training mode("mirror+echo");
  none.x() = none.x().contiguous(at::MemoryFormat::ChannelsLast);
  mode.x() = mode.x().contiguous(at::MemoryFormat::ChannelsLast);
  for (int i = 0; i < 5; ++i) expect_equal(none.step(), mode.step());
  EXPECT_EQ(dynamic_cast<PlannedMode&>(mode.mode()).report().counters.mismatches, 0);
}

TEST(PlannedModeMishaps, an_empty_batch_goes_through) {
  Training mode("echo");
  mode.x() = at::randn({0, 3, 8, 8});
  for (int i = 0; i < 5; ++i) EXPECT_NO_THROW(mode.step());
}

TEST(PlannedModeMishaps, another_batch_size_is_a_departure_and_not_an_error) {
  Training none("none");
  Training mode("echo");
  for (int i = 0; i < 4; ++i) expect_equal(none.step(), mode.step());
  none.x() = none.x().narrow(0, 0, 1).contiguous();
  mode.x() = none.x();
  expect_equal(none.step(), mode.step());
  EXPECT_EQ(dynamic_cast<PlannedMode&>(mode.mode()).report().counters.departures, 1);
}

TEST(PlannedModeMishaps, only_passes_that_kept_to_the_plan_count_as_followed) {
  Training mode("echo");
  const auto report = [&] { return dynamic_cast<PlannedMode&>(mode.mode()).report(); };
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(report().verified) << i;
    static_cast<void>(mode.step());
  }
  EXPECT_TRUE(report().verified) << "after two recorded passes and one that compared";
  EXPECT_EQ(report().followed_passes, 0);
  for (int i = 0; i < 2; ++i) static_cast<void>(mode.step());
  EXPECT_EQ(report().followed_passes, 2);
  mode.x() = mode.x().narrow(0, 0, 1).contiguous();
  static_cast<void>(mode.step());
  EXPECT_EQ(report().followed_passes, 2) << "a pass that left the plan did not follow it";
}

TEST(PlannedModeMishaps, several_forward_passes_in_one_step_are_each_followed) {
  Training none("none");
  Training mode("echo");
  for (int i = 0; i < 4; ++i) expect_equal(none.step(), mode.step());
  const auto accumulate = [](Training& training) {
    training.net().zero_grad();
    training.mode().begin_step(9);
    for (int micro = 0; micro < 3; ++micro) {
      at::Tensor loss;
      {
        const SavedTensorScope scope(training.mode());
        loss = training.net().forward(training.x()).square().mean();
      }
      loss.backward();
    }
    training.mode().end_step();
    return training.net().gradients();
  };
  expect_equal(accumulate(none), accumulate(mode));
  EXPECT_EQ(dynamic_cast<PlannedMode&>(mode.mode()).report().counters.departures, 0);
}

}  // namespace
}  // namespace noisemark::memopt
