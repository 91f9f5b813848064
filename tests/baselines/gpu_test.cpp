#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "baselines/fused_norm.h"
#include "baselines/ops.h"
#include "tests/baselines/norm_cases.h"
#include "tests/gpu.h"

// The fused norms on a GPU: against the plain operators in float64 and against the CPU's kernels.
namespace noisemark::baselines::test {
namespace {

/// Shapes of the U-Nets, and those at which a block, a warp or a pack is not full.
const std::vector<NormShape> kShapes = {
    {"first", {4, 128, 32, 32}, 32},
    {"wide", {2, 512, 4, 4}, 32},
    {"joined", {3, 384, 16, 16}, 32},
    {"odd_channels", {2, 15, 9, 3}, 5},
    {"odd_pixels", {2, 64, 7, 5}, 8},
    {"one_group", {2, 40, 6, 6}, 1},
    {"one_pixel", {4, 32, 1, 1}, 8},
    {"one_channel", {2, 1, 11, 13}, 1},
    {"channel_groups", {2, 8, 4, 4}, 8},
    {"many_pixels", {2, 6, 65, 63}, 3},
    {"wider_than_a_block", {1, 2052, 3, 3}, 2},
};

Inputs moved(const Inputs& tensors, const c10::Device& device) {
  Inputs out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.to(device));
  return out;
}

/// Computes on the GPU, and brings the outcome back.
Outcome gpu_outcome(const Group& group, const Inputs& inputs, const at::Tensor& dy) {
  const Outcome there = outcome(fused_ops(), group, moved(inputs, kGpu), dy.to(kGpu));
  return {there.y.cpu(), moved(there.grads, c10::kCPU)};
}

void expect_equals_plain_and_the_cpu(const NormCase& c, const Group& group, const Inputs& inputs) {
  const at::Tensor dy = at::randn(c.sizes).to(c.type);
  const Outcome gpu = gpu_outcome(group, inputs, in_order(dy, c.order));
  const Outcome cpu = outcome(fused_ops(), group, inputs, in_order(dy, c.order));
  expect_right(c, inputs, gpu, exact_outcome(group, inputs, dy));
  // Both are off by as much, at worst in opposite directions.
  EXPECT_LE(error(gpu.y, cpu.y), 2 * tolerance(c.type));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_LE(error(gpu.grads[i], cpu.grads[i]), 2 * tolerance(inputs[i].scalar_type()))
        << "gradient of input " << i;
  }
}

void expect_everywhere(const GroupOfCase& group, const std::function<Inputs(const NormCase&)>& more,
                       int64_t least_channels = 1) {
  for_each_case(norm_cases(kShapes), group, more, expect_equals_plain_and_the_cpu, least_channels);
}

TEST(GpuFusedNorms, group_norm_silu_equals_plain_in_float64_and_the_cpu) {
  expect_everywhere(group_norm_then(Activation::kSilu), weight_and_bias);
}

TEST(GpuFusedNorms, group_norm_relu_equals_plain_in_float64_and_the_cpu) {
  expect_everywhere(group_norm_then(Activation::kRelu), weight_and_bias_away_from_zero);
}

TEST(GpuFusedNorms, group_norm_alone_equals_plain_in_float64_and_the_cpu) {
  expect_everywhere(group_norm_alone, weight_and_bias);
}

TEST(GpuFusedNorms, rms_norm_with_and_without_scale_equals_plain_in_float64_and_the_cpu) {
  expect_everywhere(rms_norm_alone, just_g, kLeastRmsChannels);
  expect_everywhere(rms_norm_film, g_scale_shift, kLeastRmsChannels);
}

TEST(GpuFusedNorms, a_large_mean_does_not_cancel_the_variance) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({2, 64, 16, 16}) * 0.01 + 1000;
  const auto [y, mean, rstd] = group_norm_act(x.to(kGpu), 8, at::ones({64}).to(kGpu),
                                              at::zeros({64}).to(kGpu), 1e-5, kernels::Act::kNone);
  const auto [cpu_y, cpu_mean, cpu_rstd] =
      group_norm_act(x, 8, at::ones({64}), at::zeros({64}), 1e-5, kernels::Act::kNone);
  // The input itself is known to 1000 * 2^-24, of deviations of 0.01: 0.6 %.
  EXPECT_LE(error(rstd.cpu(), cpu_rstd), 1e-4);
  EXPECT_LE(error(mean.cpu(), cpu_mean), 1e-6);
}

TEST(GpuFusedNorms, repeat_their_bits) {
  at::manual_seed(5);
  for (const NormCase& c : norm_cases(kShapes)) {
    SCOPED_TRACE(c.name);
    const at::Tensor x = in_order(at::randn(c.sizes).to(c.type), c.order).to(kGpu);
    const Inputs inputs = {x, at::randn({c.sizes[1]}).to(kGpu), at::randn({c.sizes[1]}).to(kGpu)};
    const at::Tensor dy = at::randn(c.sizes).to(c.type).to(kGpu);
    const Group group = [&](const Ops& ops, const Inputs& in) {
      return ops.group_norm_act(in[0], c.groups, in[1], in[2], 1e-5, Activation::kSilu);
    };
    const Outcome first = outcome(fused_ops(), group, inputs, dy);
    const Outcome second = outcome(fused_ops(), group, inputs, dy);
    EXPECT_TRUE(at::equal(first.y, second.y));
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(at::equal(first.grads[i], second.grads[i])) << i;
    }
  }
}

TEST(GpuFusedNorms, from_statistics_has_the_bits_of_the_forward_pass) {
  at::manual_seed(6);
  for (const NormCase& c : norm_cases(kShapes)) {
    SCOPED_TRACE(c.name);
    const at::Tensor x = in_order((at::randn(c.sizes) * 2 + 0.5).to(c.type), c.order).to(kGpu);
    const at::Tensor weight = at::randn({c.sizes[1]}).to(kGpu);
    const at::Tensor bias = at::randn({c.sizes[1]}).to(kGpu);
    for (const kernels::Act act : {kernels::Act::kNone, kernels::Act::kSilu, kernels::Act::kRelu}) {
      const auto [y, mean, rstd] = group_norm_act(x, c.groups, weight, bias, 1e-5, act);
      const at::Tensor again =
          group_norm_act_from_statistics(x, c.groups, weight, bias, act, mean, rstd);
      EXPECT_EQ(again.strides(), y.strides());
      EXPECT_TRUE(at::equal(again, y));
    }
  }
}

TEST(GpuFusedNorms, an_rms_norm_from_statistics_has_the_bits_of_the_forward_pass) {
  at::manual_seed(8);
  for (const NormCase& c : norm_cases(kShapes)) {
    SCOPED_TRACE(c.name);
    const at::Tensor x = in_order(at::randn(c.sizes).to(c.type), c.order).to(kGpu);
    const at::Tensor g = at::randn({c.sizes[1]}).to(kGpu);
    const at::Tensor film = at::randn({c.sizes[0], c.sizes[1], 1, 1}).to(c.type).to(kGpu);
    for (const kernels::Act act : {kernels::Act::kNone, kernels::Act::kSilu, kernels::Act::kRelu}) {
      const auto [y, inverse] = rms_norm_act(x, g, film, film, act);
      EXPECT_TRUE(at::equal(rms_norm_act_from_statistics(x, g, film, film, act, inverse), y));
      const auto [bare, inverse_of_bare] = rms_norm_act(x, g, {}, {}, act);
      EXPECT_TRUE(
          at::equal(rms_norm_act_from_statistics(x, g, {}, {}, act, inverse_of_bare), bare));
    }
  }
}

TEST(GpuFusedNorms, from_statistics_takes_what_does_not_begin_at_a_whole_pack) {
  at::manual_seed(9);
  const at::Tensor memory = at::randn({2 * 8 * 4 * 4 + 3}).to(kGpu);
  const at::Tensor x = memory.slice(0, 3).view({2, 8, 4, 4});
  const at::Tensor weight = at::randn({8}).to(kGpu);
  const auto [y, mean, rstd] = group_norm_act(x, 2, weight, weight, 1e-5, kernels::Act::kSilu);
  EXPECT_TRUE(at::equal(
      group_norm_act_from_statistics(x, 2, weight, weight, kernels::Act::kSilu, mean, rstd), y));
}

TEST(GpuFusedNorms, take_what_does_not_begin_at_a_whole_pack) {
  at::manual_seed(9);
  const at::Tensor memory = at::randn({2 * 8 * 4 * 4 + 3}).to(kGpu);
  const at::Tensor x = memory.slice(0, 3).view({2, 8, 4, 4});
  const at::Tensor weight = at::randn({8}), bias = at::randn({8});
  const auto y =
      fused_ops().group_norm_act(x, 2, weight.to(kGpu), bias.to(kGpu), 1e-5, Activation::kSilu);
  const auto expected =
      fused_ops().group_norm_act(x.cpu(), 2, weight, bias, 1e-5, Activation::kSilu);
  EXPECT_LE(error(y.cpu(), expected), tolerance(at::kFloat));
}

TEST(GpuFusedNorms, under_autocast_bfloat16_goes_in_and_comes_out) {
  const at::Tensor x = at::randn({2, 32, 8, 8}, at::device(kGpu).dtype(at::kBFloat16));
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  const at::Tensor y =
      fused_ops().group_norm_act(x, 8, at::ones({32}, at::device(kGpu)),
                                 at::zeros({32}, at::device(kGpu)), 1e-5, Activation::kSilu);
  at::autocast::set_autocast_enabled(at::kCUDA, false);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace noisemark::baselines::test
