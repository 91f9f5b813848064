/// The gradient of a gradient.

#include <ATen/ops/conv2d.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/memopt/mode_run.h"

namespace noisemark::memopt::test {
namespace {

/// Two blocks with all that the modes know how to treat. Attention is left out: LibTorch's has no
/// second derivative.
TestModel smooth_model() {
  TestModel model;
  const auto add = [&](const char* name, at::IntArrayRef shape) {
    model.view.parameters.emplace_back(name, at::randn(shape).mul_(0.2).set_requires_grad(true));
    return model.view.parameters.back().second;
  };
  const at::Tensor stem = add("stem.weight", {8, 3, 3, 3});
  const at::Tensor scale = add("block.norm.weight", {8});
  const at::Tensor shift = add("block.norm.bias", {8});
  const at::Tensor first = add("block.conv1.weight", {8, 8, 3, 3});
  const at::Tensor second = add("block.conv2.weight", {8, 8, 3, 3});
  const at::Tensor x = at::randn({2, 3, 12, 12});
  model.loss = [=, generator = model.generator] {
    at::Tensor h = at::max_pool2d(at::relu(at::conv2d(x, stem, {}, 1, 1)), 2);
    at::Tensor y = at::silu(at::group_norm(h, 4, scale, shift));
    y = y * at::bernoulli(at::full_like(y.detach(), 0.9), generator);
    h = h + at::conv2d(y, first, {}, 1, 1);
    return at::conv2d(at::silu(h * 0.5), second, {}, 1, 1).square().mean();
  };
  return model;
}

struct Derivatives {
  std::vector<at::Tensor> first;
  std::vector<at::Tensor> second;  ///< of half the squared norm of the first
};

class DoubleBackward : public testing::TestWithParam<const char*> {
 protected:
  static Derivatives derivatives(ModeRun& run, int64_t number) {
    Derivatives derivatives;
    run.begin(number);
    {
      const at::Tensor loss = run.forward();
      const std::vector<at::Tensor> gradients = torch::autograd::grad(
          {loss}, run.parameters(), {}, /*retain_graph=*/std::nullopt, /*create_graph=*/true);
      at::Tensor penalty;
      for (const at::Tensor& gradient : gradients) {
        const at::Tensor squares = gradient.square().sum() / 2;
        penalty = penalty.defined() ? penalty + squares : squares;
        derivatives.first.push_back(gradient.detach().clone());
      }
      (loss + penalty).backward();
    }
    run.mode().end_step();
    derivatives.second = run.take_gradients();
    return derivatives;
  }
};

TEST_P(DoubleBackward, gives_the_bits_of_none_and_its_bytes_back) {
  const std::string mode = mode_for(GetParam(), smooth_model);
  ModeRun reference(reference_of(mode), smooth_model);
  ModeRun run(mode, smooth_model);
  for (int64_t number = 1; number <= 7; ++number) {
    SCOPED_TRACE(number);
    const Derivatives expected = derivatives(reference, number);
    const int64_t level = live_bytes();
    {
      const Derivatives got = derivatives(run, number);
      expect_right(mode, expected.first, got.first);
      expect_right(mode, expected.second, got.second);
    }
    if (number > 5) {
      EXPECT_EQ(live_bytes(), level);
    }
  }
  EXPECT_EQ(run.report().missing_reason, "");
  EXPECT_EQ(run.report().counters.departures, 0);
  EXPECT_EQ(run.report().counters.mismatches, 0);
}

TEST_P(DoubleBackward, may_follow_steps_that_were_differentiated_once) {
  const std::string mode = mode_for(GetParam(), smooth_model);
  ModeRun reference(reference_of(mode), smooth_model);
  ModeRun run(mode, smooth_model);
  for (int64_t number = 1; number <= 5; ++number) {
    static_cast<void>(reference.step(number));
    static_cast<void>(run.step(number));
  }
  const Derivatives expected = derivatives(reference, 6);
  const int64_t level = live_bytes();
  {
    const Derivatives got = derivatives(run, 6);
    expect_right(mode, expected.first, got.first);
    expect_right(mode, expected.second, got.second);
  }
  EXPECT_EQ(live_bytes(), level);
  expect_right(mode, reference.step(7), run.step(7));
}

INSTANTIATE_TEST_SUITE_P(Modes, DoubleBackward,
                         testing::Values("mirror", "mirror:sqrt", "mirror+echo", "echo",
                                         "echo+attn", "gist", "echo+gist", "offload", "offload:all",
                                         "echo+gist+offload:all", "dpr8", "q4", "budget",
                                         "budget,error"),
                         [](const auto& info) { return plain_name(info.param); });

}  // namespace
}  // namespace noisemark::memopt::test
