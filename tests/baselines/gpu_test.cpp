#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "baselines/fused_norm.h"
#include "baselines/ops.h"

// The fused norms on a GPU: against the plain operators in float64 and against the CPU's kernels.
namespace noisemark::baselines {
namespace {

const c10::Device kGpu("cuda:0");

enum class Order { kPlanes, kPixels, kStrided };

struct Case {
  std::string name;
  std::vector<int64_t> sizes;  ///< N, C, H, W
  int64_t groups;
  Order order;
  at::ScalarType type;
};

/// Shapes of the U-Nets, and those at which a block, a warp or a pack is not full.
std::vector<Case> cases() {
  struct ShapeCase {
    const char* name;
    std::vector<int64_t> sizes;
    int64_t groups;
  };
  const std::vector<ShapeCase> shapes = {
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
  std::vector<Case> all;
  for (const ShapeCase& s : shapes) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const std::string suffix = type == at::kFloat ? "_float32" : "_bfloat16";
      const std::string name = s.name;
      all.push_back({name + "_planes" + suffix, s.sizes, s.groups, Order::kPlanes, type});
      all.push_back({name + "_pixels" + suffix, s.sizes, s.groups, Order::kPixels, type});
      all.push_back({name + "_strided" + suffix, s.sizes, s.groups, Order::kStrided, type});
    }
  }
  return all;
}

at::Tensor in_order(const at::Tensor& x, Order order) {
  if (order == Order::kPixels) return x.contiguous(at::MemoryFormat::ChannelsLast);
  if (order == Order::kStrided) return x.transpose(2, 3).contiguous().transpose(2, 3);
  return x;
}

using Inputs = std::vector<at::Tensor>;
using Group = std::function<at::Tensor(const Ops&, const Inputs&)>;

/// What one group computes and passes back, on the CPU.
struct Outcome {
  at::Tensor y;
  Inputs grads;
};

Outcome outcome(const Ops& ops, const Group& group, const Inputs& inputs, const at::Tensor& dy) {
  Inputs leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
  const at::Tensor y = group(ops, leaves);
  Outcome all{y.detach().cpu(), torch::autograd::grad({y}, leaves, {dy.to(y.scalar_type())})};
  for (at::Tensor& grad : all.grads) grad = grad.cpu();
  return all;
}

template <typename Change>
Inputs changed(const Inputs& tensors, Change change) {
  Inputs out;
  for (const at::Tensor& tensor : tensors) out.push_back(change(tensor));
  return out;
}

Inputs on_gpu(const Inputs& tensors) {
  return changed(tensors, [](const at::Tensor& x) { return x.to(kGpu); });
}

/// Largest difference, relative to the reference's largest value.
double error(const at::Tensor& x, const at::Tensor& reference) {
  const double size = reference.abs().max().item<double>();
  const double off = (x.to(at::kDouble) - reference.to(at::kDouble)).abs().max().item<double>();
  return size > 0 ? off / size : off;
}

/// As on the CPU (fused_ops_test.cpp): sums of up to 1e4 terms in float32 and an exponential that
/// is right to 2^-20, so 1e-5; bfloat16 results are rounded to 8 bits.
double tolerance(at::ScalarType type) {
  return type == at::kFloat ? 1e-5 : 0x1p-8;
}

void expect_equals_plain_and_the_cpu(const Case& c, const Group& group, const Inputs& inputs) {
  const at::Tensor dy = at::randn(c.sizes).to(c.type);
  const Outcome gpu = outcome(fused_ops(), group, on_gpu(inputs), in_order(dy, c.order).to(kGpu));
  const Outcome cpu = outcome(fused_ops(), group, inputs, in_order(dy, c.order));
  const Outcome exact = outcome(
      plain_ops(), group, changed(inputs, [](const at::Tensor& x) { return x.to(at::kDouble); }),
      dy.to(at::kDouble));
  EXPECT_EQ(gpu.y.scalar_type(), c.type);
  EXPECT_LE(error(gpu.y, exact.y), tolerance(c.type));
  // Both are off by as much, at worst in opposite directions.
  EXPECT_LE(error(gpu.y, cpu.y), 2 * tolerance(c.type));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double bound = tolerance(inputs[i].scalar_type());
    EXPECT_EQ(gpu.grads[i].scalar_type(), inputs[i].scalar_type()) << i;
    EXPECT_LE(error(gpu.grads[i], exact.grads[i]), bound) << "gradient of input " << i;
    EXPECT_LE(error(gpu.grads[i], cpu.grads[i]), 2 * bound) << "gradient of input " << i;
  }
  if (c.order != Order::kStrided) {
    EXPECT_EQ(gpu.y.strides(), inputs[0].strides()) << "the memory order of the input is lost";
    EXPECT_EQ(gpu.grads[0].strides(), inputs[0].strides());
  }
}

void expect_everywhere(
    const std::function<at::Tensor(const Case&, const Ops&, const Inputs&)>& group,
    const std::function<Inputs(const Case&)>& more, int64_t least_channels = 1) {
  at::manual_seed(7);
  for (const Case& c : cases()) {
    if (c.sizes[1] < least_channels) continue;
    SCOPED_TRACE(c.name);
    Inputs inputs = {in_order((at::randn(c.sizes) * 2 + 0.5).to(c.type), c.order)};
    for (const at::Tensor& input : more(c)) inputs.push_back(input);
    expect_equals_plain_and_the_cpu(
        c, [&](const Ops& ops, const Inputs& in) { return group(c, ops, in); }, inputs);
  }
}

Inputs weight_and_bias(const Case& c) {
  return {at::randn({c.sizes[1]}), at::randn({c.sizes[1]})};
}

/// So that no value is within rounding of zero, where ReLU's slope jumps.
Inputs weight_and_bias_away_from_zero(const Case& c) {
  const int64_t channels = c.sizes[1];
  return {at::rand({channels}) * 0.1 + 0.1,
          at::randn({channels}).sign() * (at::rand({channels}) + 2)};
}

TEST(GpuFusedNorms, group_norm_silu_equals_plain_in_float64_and_the_cpu) {
  expect_everywhere(
      [](const Case& c, const Ops& ops, const Inputs& in) {
        return ops.group_norm_act(in[0], c.groups, in[1], in[2], 1e-5, Activation::kSilu);
      },
      weight_and_bias);
}

TEST(GpuFusedNorms, group_norm_relu_equals_plain_in_float64_and_the_cpu) {
  expect_everywhere(
      [](const Case& c, const Ops& ops, const Inputs& in) {
        return ops.group_norm_act(in[0], c.groups, in[1], in[2], 1e-5, Activation::kRelu);
      },
      weight_and_bias_away_from_zero);
}

TEST(GpuFusedNorms, group_norm_alone_equals_plain_in_float64_and_the_cpu) {
  expect_everywhere(
      [](const Case& c, const Ops& ops, const Inputs& in) {
        return ops.group_norm(in[0], c.groups, in[1], in[2], 1e-6);
      },
      weight_and_bias);
}

/// The RMS norm of one channel is its sign: its gradient is zero, no error is relative to that.
constexpr int64_t kLeastRmsChannels = 2;

TEST(GpuFusedNorms, rms_norm_with_and_without_scale_equals_plain_in_float64_and_the_cpu) {
  expect_everywhere(
      [](const Case&, const Ops& ops, const Inputs& in) { return ops.rms_norm(in[0], in[1]); },
      [](const Case& c) {
        return Inputs{at::randn({1, c.sizes[1], 1, 1})};
      },
      kLeastRmsChannels);
  expect_everywhere(
      [](const Case&, const Ops& ops, const Inputs& in) {
        return ops.rms_norm_film_silu(in[0], in[1], in[2], in[3]);
      },
      [](const Case& c) {
        const int64_t channels = c.sizes[1];
        const at::Tensor both = at::randn({c.sizes[0], 2 * channels, 1, 1}).to(c.type);
        return Inputs{at::randn({1, channels, 1, 1}), both.slice(1, 0, channels),
                      both.slice(1, channels)};
      },
      kLeastRmsChannels);
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
  for (const Case& c : cases()) {
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
}  // namespace noisemark::baselines
