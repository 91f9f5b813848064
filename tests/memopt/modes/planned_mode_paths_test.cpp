/// Models that could deceive a planned mode: every gradient must be that of mode "none".

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/planned_mode.h"
#include "tests/memopt/nets.h"

namespace noisemark::memopt {
namespace {

/// A function of a step number and a weight, trained under a mode.
class Trained {
 public:
  using Forward = std::function<at::Tensor(int step, const std::vector<at::Tensor>& weights)>;

  Trained(const char* mode, Forward forward, size_t weights)
      : mode_(make_mode(mode)), forward_(std::move(forward)) {
    at::manual_seed(21);
    ModelView view;
    for (size_t i = 0; i < weights; ++i) {
      weights_.push_back(at::randn({8, 8}).set_requires_grad(true));
      view.parameters.emplace_back(std::to_string(i) + ".weight", weights_.back());
    }
    mode_->attach(view);
  }

  std::vector<at::Tensor> step(int number) {
    for (at::Tensor& weight : weights_) weight.mutable_grad() = at::Tensor();
    mode_->begin_step(number);
    at::Tensor loss;
    {
      const SavedTensorScope scope(*mode_);
      loss = forward_(number, weights_).square().sum();
    }
    loss.backward();
    mode_->end_step();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& weight : weights_) {
      gradients.push_back(weight.grad().defined() ? weight.grad().clone() : at::zeros({8, 8}));
    }
    return gradients;
  }

 private:
  std::unique_ptr<Mode> mode_;
  Forward forward_;
  std::vector<at::Tensor> weights_;
};

class Paths : public testing::TestWithParam<const char*> {
 protected:
  Paths() {
    at::manual_seed(22);
    x_ = at::randn({4, 8});
  }

  void expect_gradients_of_none(const Trained::Forward& forward, size_t weights) {
    Trained none("none", forward, weights);
    Trained mode(GetParam(), forward, weights);
    for (int number = 0; number < 8; ++number) {
      const std::vector<at::Tensor> expected = none.step(number);
      const std::vector<at::Tensor> got = mode.step(number);
      for (size_t i = 0; i < weights; ++i) {
        EXPECT_TRUE(got[i].equal(expected[i])) << "step " << number << ", weight " << i;
      }
    }
  }

  at::Tensor x_;
};

TEST_P(Paths, a_layer_of_the_same_shape_is_taken_instead) {
  expect_gradients_of_none(
      [this](int step, const std::vector<at::Tensor>& w) {
        const at::Tensor h = at::silu(at::linear(x_, w[step < 5 ? 0 : 1]));
        return at::silu(at::linear(at::silu(h * 2), w[2]));
      },
      3);
}

TEST_P(Paths, another_activation_of_the_same_shape_is_taken) {
  expect_gradients_of_none(
      [this](int step, const std::vector<at::Tensor>& w) {
        const at::Tensor h = at::linear(x_, w[0]);
        return at::linear(step < 5 ? at::silu(h) : h.tanh(), w[1]);
      },
      2);
}

TEST_P(Paths, memory_is_written_through_a_view_after_it_was_read) {
  // For five steps the bound cuts nothing off, so the written memory keeps its bits.
  expect_gradients_of_none(
      [this](int step, const std::vector<at::Tensor>& w) {
        at::Tensor h = at::linear(x_, w[0]);
        const at::Tensor y = h * 2;
        const double bound = step < 5 ? 1e9 : 0.1;
        h.narrow(1, 0, 4).clamp_(-bound, bound);
        return at::linear(at::silu(h) + at::silu(y), w[1]);
      },
      2);
}

TEST_P(Paths, memory_is_written_in_place_between_two_uses) {
  expect_gradients_of_none(
      [this](int step, const std::vector<at::Tensor>& w) {
        at::Tensor h = at::linear(x_, w[0]);
        const at::Tensor before = at::silu(h * 3);
        h.mul_(step + 2);
        return at::linear(before * at::silu(h), w[1]);
      },
      2);
}

TEST_P(Paths, an_input_without_history_is_exchanged) {
  expect_gradients_of_none(
      [this](int step, const std::vector<at::Tensor>& w) {
        const at::Tensor condition = step < 5 ? at::zeros({4, 8}) : at::ones({4, 8});
        return at::linear(at::silu(at::linear(x_, w[0]) + condition) * condition, w[1]);
      },
      2);
}

INSTANTIATE_TEST_SUITE_P(Replaying, Paths,
                         testing::Values("mirror", "mirror:sqrt", "mirror+echo", "echo",
                                         "echo+attn", "gist", "echo+gist", "offload:all"));

TEST(RunningStatistics, of_batch_norm_move_once_in_a_step) {
  const auto train = [](const char* name) {
    at::manual_seed(5);
    const at::Tensor x = at::randn({4, 3, 8, 8});
    const at::Tensor weight = at::randn({6, 3, 3, 3}).set_requires_grad(true);
    const at::Tensor head = at::randn({3, 6, 3, 3}).set_requires_grad(true);
    const at::Tensor mean = at::zeros({6});
    const at::Tensor variance = at::ones({6});
    const std::unique_ptr<Mode> mode = make_mode(name);
    ModelView view;
    view.parameters = {{"block.conv1.weight", weight}, {"block.conv2.weight", head}};
    view.buffers = {mean, variance};
    mode->attach(view);
    for (int step = 0; step < 5; ++step) {
      mode->begin_step(step);
      at::Tensor loss;
      {
        const SavedTensorScope scope(*mode);
        const at::Tensor h = at::batch_norm(at::conv2d(x, weight), {}, {}, mean, variance,
                                            /*training=*/true, 0.1, 1e-5, false);
        loss = at::conv2d(at::silu(h), head).square().mean();
      }
      loss.backward();
      mode->end_step();
    }
    return mean;
  };
  const at::Tensor expected = train("none");
  for (const char* mode : {"mirror", "mirror+echo", "echo"}) {
    EXPECT_TRUE(train(mode).equal(expected)) << mode;
  }
}

/// Forward passes under a mode whose backward comes at odd times.
class OddTimes : public testing::Test {
 protected:
  OddTimes() {
    at::manual_seed(6);
    net_.dropout = 0;
    x_ = at::randn({2, 3, 8, 8});
    mode_->attach(net_.view());
    net_.forward(x_).square().mean().backward();
    expected_ = net_.gradients();
    net_.zero_grad();
  }

  at::Tensor forward() {
    const SavedTensorScope scope(*mode_);
    return net_.forward(x_).square().mean();
  }

  [[nodiscard]] PlannedModeReport report() const { return report_of(*mode_); }

  void expect_gradients(double times) {
    const std::vector<at::Tensor> gradients = net_.gradients();
    for (size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(gradients[i].equal(expected_[i] * times)) << i;
    }
    net_.zero_grad();
  }

  test::BlockNet net_;
  at::Tensor x_;
  std::unique_ptr<Mode> mode_ = make_mode("echo");
  std::vector<at::Tensor> expected_;
};

TEST_F(OddTimes, two_forward_passes_and_then_both_backward_passes) {
  for (int step = 0; step < 6; ++step) {
    mode_->begin_step(step);
    const at::Tensor first = forward();
    const at::Tensor second = forward();
    first.backward();
    second.backward();
    mode_->end_step();
    expect_gradients(2);
  }
}

TEST_F(OddTimes, backward_after_the_end_of_the_step_follows_the_plan) {
  int64_t recipes_run = 0;
  for (int step = 0; step < 8; ++step) {
    SCOPED_TRACE(step);
    mode_->begin_step(step);
    const at::Tensor loss = forward();
    if (step >= 5) {
      EXPECT_GT(report().counters.recipes_run, recipes_run) << "by the late backward before";
    }
    recipes_run = report().counters.recipes_run;
    const bool late = step >= 3;  // a plan is followed from then on
    if (!late) loss.backward();
    mode_->end_step();
    if (late) loss.backward();
    expect_gradients(1);
  }
  EXPECT_GT(recipes_run, 0);
  EXPECT_EQ(report().followed_passes, 5);
  EXPECT_EQ(report().counters.departures, 0);
  EXPECT_EQ(report().counters.mismatches, 0);
}

TEST_F(OddTimes, backward_that_is_always_late_is_no_recording_and_the_report_says_so) {
  for (int step = 0; step < 6; ++step) {
    mode_->begin_step(step);
    const at::Tensor loss = forward();
    mode_->end_step();
    EXPECT_NE(report().missing_reason.find("did not begin before its step ended"),
              std::string::npos)
        << report().missing_reason;
    loss.backward();
    expect_gradients(1);
  }
}

TEST_F(OddTimes, one_recorded_pass_is_said_to_be_too_few) {
  EXPECT_EQ(report().missing_reason, "no forward pass was recorded yet");
  mode_->begin_step(0);
  forward().backward();
  mode_->end_step();
  EXPECT_NE(report().missing_reason.find("one forward pass was recorded"), std::string::npos);
}

TEST_F(OddTimes, a_pass_without_backward_verifies_nothing) {
  for (int step = 0; step < 8; ++step) {
    mode_->begin_step(step);
    const at::Tensor loss = forward();
    if (step != 2) {
      loss.backward();
      expect_gradients(1);
    }
    mode_->end_step();
  }
  EXPECT_GT(report().counters.recipes_run, 0);
}

}  // namespace
}  // namespace noisemark::memopt
