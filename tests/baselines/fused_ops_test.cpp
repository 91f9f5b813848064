#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <limits>
#include <vector>

#include "baselines/ops.h"
#include "tests/baselines/norm_cases.h"

namespace noisemark::baselines::test {
namespace {

void expect_equals_reference(const NormCase& c, const Group& group, const Inputs& inputs) {
  const at::Tensor dy = at::randn(c.sizes).to(c.type);
  const Outcome fused = outcome(fused_ops(), group, inputs, in_order(dy, c.order));
  expect_right(c, inputs, fused, exact_outcome(group, inputs, dy));
}

/// Checks `group` on every case; `more` makes its inputs after x.
void expect_equals_reference_everywhere(const GroupOfCase& group,
                                        const std::function<Inputs(const NormCase&)>& more,
                                        int64_t least_channels = 1) {
  for_each_case(norm_cases(kNormShapes), group, more, expect_equals_reference, least_channels);
}

TEST(FusedOps, group_norm_silu_equals_plain_in_float64) {
  expect_equals_reference_everywhere(group_norm_then(Activation::kSilu), weight_and_bias);
}

TEST(FusedOps, group_norm_relu_equals_plain_in_float64) {
  expect_equals_reference_everywhere(group_norm_then(Activation::kRelu),
                                     weight_and_bias_away_from_zero);
}

TEST(FusedOps, group_norm_equals_plain_in_float64) {
  expect_equals_reference_everywhere(group_norm_alone, weight_and_bias);
}

TEST(FusedOps, rms_norm_equals_plain_in_float64) {
  expect_equals_reference_everywhere(rms_norm_alone, just_g, kLeastRmsChannels);
}

TEST(FusedOps, rms_norm_silu_equals_plain_in_float64) {
  expect_equals_reference_everywhere(
      [](const NormCase&, const Ops& ops, const Inputs& in) {
        return ops.rms_norm_film_silu(in[0], in[1], {}, {});
      },
      just_g, kLeastRmsChannels);
}

TEST(FusedOps, rms_norm_film_silu_equals_plain_in_float64) {
  expect_equals_reference_everywhere(rms_norm_film, g_scale_shift, kLeastRmsChannels);
}

TEST(FusedOps, keeps_precision_when_the_mean_dwarfs_the_deviation) {
  // Sums of raw squares would lose all digits here: (1000 / 0.5)^2 is 4e6, of float32's 1.6e7.
  const at::Tensor x = at::randn({2, 8, 16, 16}) * 0.5 + 1000;
  for (const Order order : {Order::kPlanes, Order::kPixels}) {
    const at::Tensor y = fused_ops().group_norm(in_order(x, order), 2, at::rand({8}) * 0 + 1,
                                                at::rand({8}) * 0, 1e-5);
    const at::Tensor exact =
        plain_ops().group_norm(x.to(at::kDouble), 2, at::rand({8}, at::kDouble) * 0 + 1,
                               at::rand({8}, at::kDouble) * 0, 1e-5);
    EXPECT_LE(error(y, exact), 1e-4);  // eps(1000) / 0.5, the rounding of x * scale + offset
  }
}

TEST(FusedOps, a_zero_pixel_has_the_gradient_of_the_clamped_norm) {
  at::Tensor x = at::randn({1, 4, 2, 2});
  x.select(3, 0).zero_();
  for (const Order order : {Order::kPlanes, Order::kPixels}) {
    const auto group = [](const Ops& ops, const Inputs& in) { return ops.rms_norm(in[0], in[1]); };
    const Inputs inputs = {in_order(x, order), at::randn({1, 4, 1, 1})};
    const at::Tensor dy = at::randn({1, 4, 2, 2});
    const Outcome fused = outcome(fused_ops(), group, inputs, dy);
    const Outcome plain = exact_outcome(group, inputs, dy);
    EXPECT_LE(error(fused.grads[0], plain.grads[0]), 1e-5);
    EXPECT_GT(fused.grads[0].abs().max().item<double>(), 1e10);  // the zero pixel's, 1 / eps
    EXPECT_LE(error(fused.grads[0].select(3, 1), plain.grads[0].select(3, 1)), 1e-5);
  }
}

TEST(FusedOps, gives_the_same_bits_for_every_thread_count) {
  const at::Tensor x = at::randn({5, 64, 24, 24});
  const at::Tensor weight = at::randn({64});
  const at::Tensor dy = at::randn_like(x);
  const Group group = [](const Ops& ops, const Inputs& in) {
    const at::Tensor normed = ops.group_norm_act(in[0], 8, in[1], in[1], 1e-5, Activation::kSilu);
    return ops.rms_norm(normed, in[1].reshape({1, 64, 1, 1}));
  };
  const int threads = at::get_num_threads();
  for (const Order order : {Order::kPlanes, Order::kPixels}) {
    at::set_num_threads(1);
    const Outcome one = outcome(fused_ops(), group, {in_order(x, order), weight}, dy);
    at::set_num_threads(3);
    const Outcome three = outcome(fused_ops(), group, {in_order(x, order), weight}, dy);
    EXPECT_TRUE(at::equal(one.y, three.y));
    EXPECT_TRUE(at::equal(one.grads[0], three.grads[0]));
    EXPECT_TRUE(at::equal(one.grads[1], three.grads[1]));
  }
  at::set_num_threads(threads);
}

TEST(FusedOps, stays_in_bfloat16_under_autocast) {
  const at::Tensor x = at::randn({2, 8, 4, 4}).to(at::kBFloat16).requires_grad_(true);
  const at::Tensor g = at::randn({1, 8, 1, 1}).requires_grad_(true);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor y = fused_ops().rms_norm_film_silu(x, g, {}, {});
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  const auto grads = torch::autograd::grad({y.sum()}, {x, g});
  EXPECT_EQ(grads[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(grads[1].scalar_type(), at::kFloat);
}

TEST(FusedOps, takes_three_dimensions_as_attention_has_them) {
  const at::Tensor x = at::randn({2, 8, 12});
  const at::Tensor pixels = x.transpose(1, 2).contiguous().transpose(1, 2);
  const at::Tensor weight = at::randn({8});
  const at::Tensor exact = plain_ops().group_norm(x.to(at::kDouble), 4, weight.to(at::kDouble),
                                                  weight.to(at::kDouble), 1e-5);
  EXPECT_LE(error(fused_ops().group_norm(x, 4, weight, weight, 1e-5), exact), 1e-5);
  const at::Tensor y = fused_ops().group_norm(pixels, 4, weight, weight, 1e-5);
  EXPECT_LE(error(y, exact), 1e-5);
  EXPECT_EQ(y.strides(), pixels.strides());
}

TEST(FusedOps, falls_back_to_plain_where_there_is_no_kernel) {
  const at::Tensor weight = at::randn({8});
  const at::Tensor empty = at::randn({0, 8, 4, 4});
  EXPECT_EQ(fused_ops().group_norm(empty, 4, weight, weight, 1e-5).sizes(), empty.sizes());
  EXPECT_EQ(fused_ops().rms_norm(empty, weight.reshape({1, 8, 1, 1})).sizes(), empty.sizes());
  const at::Tensor x = at::randn({2, 8, 4, 4}, at::kDouble);
  const at::Tensor g = at::randn({1, 8, 1, 1}, at::kDouble);
  EXPECT_TRUE(at::equal(fused_ops().rms_norm(x, g), plain_ops().rms_norm(x, g)));
}

TEST(FusedOps, refuses_groups_that_do_not_divide_the_channels) {
  const at::Tensor weight = at::randn({8});
  EXPECT_THROW((void)fused_ops().group_norm(at::randn({1, 8, 2, 2}), 3, weight, weight, 1e-5),
               c10::Error);
}

TEST(FusedOps, a_value_changed_in_place_after_the_forward_pass_is_refused) {
  at::Tensor x = at::randn({1, 8, 2, 2}) * 1;
  const at::Tensor weight = at::randn({8}).requires_grad_(true);
  const at::Tensor y = fused_ops().group_norm(x, 2, weight, weight, 1e-5);
  x.add_(1);
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {weight}), c10::Error);
}

TEST(FusedOps, non_finite_inputs_are_not_hidden) {
  at::Tensor x = at::randn({1, 8, 4, 4});
  x[0][3][1][1] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor weight = at::randn({8});
  for (const Order order : {Order::kPlanes, Order::kPixels}) {
    const at::Tensor y =
        fused_ops().group_norm_act(in_order(x, order), 2, weight, weight, 1e-5, Activation::kSilu);
    EXPECT_TRUE(y.isnan().any().item<bool>());
    EXPECT_TRUE(fused_ops()
                    .rms_norm(in_order(x, order), weight.reshape({1, 8, 1, 1}))
                    .isnan()
                    .any()
                    .item<bool>());
  }
}

}  // namespace
}  // namespace noisemark::baselines::test
