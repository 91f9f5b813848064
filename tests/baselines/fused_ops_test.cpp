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
#include <string>
#include <vector>

#include "baselines/ops.h"

namespace noisemark::baselines {
namespace {

enum class Order { kPlanes, kPixels, kStrided };

struct Case {
  std::string name;
  std::vector<int64_t> sizes;  ///< N, C, H, W
  int64_t groups;
  Order order;
  at::ScalarType type;
};

/// All combinations of awkward shapes with storage orders and types.
std::vector<Case> cases() {
  struct ShapeCase {
    const char* name;
    std::vector<int64_t> sizes;
    int64_t groups;
  };
  const std::vector<ShapeCase> shapes = {
      {"usual", {3, 64, 16, 16}, 32},     {"one_sample", {1, 24, 5, 7}, 4},
      {"odd_channels", {2, 15, 9, 3}, 5}, {"channel_groups", {2, 8, 4, 4}, 8},
      {"one_group", {2, 40, 6, 6}, 1},    {"one_pixel", {4, 32, 1, 1}, 8},
      {"one_channel", {2, 1, 11, 13}, 1}, {"many_pixels", {2, 6, 33, 31}, 3},
      {"wide", {2, 512, 4, 4}, 32},
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

using Group = std::function<at::Tensor(const Ops&, const std::vector<at::Tensor>&)>;

/// What one group computes and passes back.
struct Outcome {
  at::Tensor y;
  std::vector<at::Tensor> grads;
};

Outcome outcome(const Ops& ops, const Group& group, const std::vector<at::Tensor>& inputs,
                const at::Tensor& dy) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
  const at::Tensor y = group(ops, leaves);
  return {y.detach(), torch::autograd::grad({y}, leaves, {dy.to(y.scalar_type())})};
}

std::vector<at::Tensor> upcast(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.to(at::kDouble));
  return out;
}

/// Largest difference, relative to the reference's largest value.
double error(const at::Tensor& x, const at::Tensor& reference) {
  const double size = reference.abs().max().item<double>();
  const double off = (x.to(at::kDouble) - reference).abs().max().item<double>();
  return size > 0 ? off / size : off;
}

/// Float32: sums of up to 1e4 terms in float32, so 1e-5. Bfloat16: the result is rounded to 8 bits
/// (2^-9 relative), everything before is float32 on the same bfloat16 inputs. Gradients of
/// parameters are float32 sums either way.
double output_tolerance(at::ScalarType type) {
  return type == at::kFloat ? 1e-5 : 0x1p-8;
}

void expect_equals_reference(const Case& c, const Group& group,
                             const std::vector<at::Tensor>& inputs) {
  const at::Tensor dy = at::randn(c.sizes).to(c.type);
  const Outcome fused = outcome(fused_ops(), group, inputs, in_order(dy, c.order));
  const Outcome exact = outcome(plain_ops(), group, upcast(inputs), dy.to(at::kDouble));
  EXPECT_EQ(fused.y.scalar_type(), c.type);
  EXPECT_LE(error(fused.y, exact.y), output_tolerance(c.type));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(fused.grads[i].scalar_type(), inputs[i].scalar_type()) << i;
    EXPECT_EQ(fused.grads[i].sizes(), inputs[i].sizes()) << i;
    EXPECT_LE(error(fused.grads[i], exact.grads[i]), output_tolerance(inputs[i].scalar_type()))
        << "gradient of input " << i;
  }
  if (c.order != Order::kStrided) {
    EXPECT_EQ(fused.y.strides(), inputs[0].strides()) << "the memory order of the input is lost";
    EXPECT_EQ(fused.grads[0].strides(), inputs[0].strides());
  }
}

using Inputs = std::vector<at::Tensor>;

/// Checks `group` on every case; `more` makes its inputs after x.
void expect_equals_reference_everywhere(
    const std::function<at::Tensor(const Case&, const Ops&, const Inputs&)>& group,
    const std::function<Inputs(const Case&)>& more, int64_t least_channels = 1) {
  at::manual_seed(7);
  for (const Case& c : cases()) {
    if (c.sizes[1] < least_channels) continue;
    SCOPED_TRACE(c.name);
    Inputs inputs = {in_order((at::randn(c.sizes) * 2 + 0.5).to(c.type), c.order)};
    for (const at::Tensor& input : more(c)) inputs.push_back(input);
    expect_equals_reference(
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

/// The RMS norm of one channel is its sign: its gradient is zero, no error is relative to that.
constexpr int64_t kLeastRmsChannels = 2;

Inputs just_g(const Case& c) {
  return {at::randn({1, c.sizes[1], 1, 1})};
}

/// Scale and shift are strided views, as chunk() makes them.
Inputs g_scale_shift(const Case& c) {
  const int64_t channels = c.sizes[1];
  const at::Tensor both = at::randn({c.sizes[0], 2 * channels, 1, 1}).to(c.type);
  return {at::randn({1, channels, 1, 1}), both.slice(1, 0, channels), both.slice(1, channels)};
}

TEST(FusedOps, group_norm_silu_equals_plain_in_float64) {
  expect_equals_reference_everywhere(
      [](const Case& c, const Ops& ops, const Inputs& in) {
        return ops.group_norm_act(in[0], c.groups, in[1], in[2], 1e-5, Activation::kSilu);
      },
      weight_and_bias);
}

TEST(FusedOps, group_norm_relu_equals_plain_in_float64) {
  expect_equals_reference_everywhere(
      [](const Case& c, const Ops& ops, const Inputs& in) {
        return ops.group_norm_act(in[0], c.groups, in[1], in[2], 1e-5, Activation::kRelu);
      },
      weight_and_bias_away_from_zero);
}

TEST(FusedOps, group_norm_equals_plain_in_float64) {
  expect_equals_reference_everywhere(
      [](const Case& c, const Ops& ops, const Inputs& in) {
        return ops.group_norm(in[0], c.groups, in[1], in[2], 1e-6);
      },
      weight_and_bias);
}

TEST(FusedOps, rms_norm_equals_plain_in_float64) {
  expect_equals_reference_everywhere(
      [](const Case&, const Ops& ops, const Inputs& in) { return ops.rms_norm(in[0], in[1]); },
      just_g, kLeastRmsChannels);
}

TEST(FusedOps, rms_norm_silu_equals_plain_in_float64) {
  expect_equals_reference_everywhere(
      [](const Case&, const Ops& ops, const Inputs& in) {
        return ops.rms_norm_film_silu(in[0], in[1], {}, {});
      },
      just_g, kLeastRmsChannels);
}

TEST(FusedOps, rms_norm_film_silu_equals_plain_in_float64) {
  expect_equals_reference_everywhere(
      [](const Case&, const Ops& ops, const Inputs& in) {
        return ops.rms_norm_film_silu(in[0], in[1], in[2], in[3]);
      },
      g_scale_shift, kLeastRmsChannels);
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
    const auto group = [](const Ops& ops, const std::vector<at::Tensor>& in) {
      return ops.rms_norm(in[0], in[1]);
    };
    const std::vector<at::Tensor> inputs = {in_order(x, order), at::randn({1, 4, 1, 1})};
    const at::Tensor dy = at::randn({1, 4, 2, 2});
    const Outcome fused = outcome(fused_ops(), group, inputs, dy);
    const Outcome plain = outcome(plain_ops(), group, upcast(inputs), dy);
    EXPECT_LE(error(fused.grads[0], plain.grads[0]), 1e-5);
    EXPECT_GT(fused.grads[0].abs().max().item<double>(), 1e10);  // the zero pixel's, 1 / eps
    EXPECT_LE(error(fused.grads[0].select(3, 1), plain.grads[0].select(3, 1)), 1e-5);
  }
}

TEST(FusedOps, gives_the_same_bits_for_every_thread_count) {
  const at::Tensor x = at::randn({5, 64, 24, 24});
  const at::Tensor weight = at::randn({64});
  const at::Tensor dy = at::randn_like(x);
  const Group group = [](const Ops& ops, const std::vector<at::Tensor>& in) {
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
}  // namespace noisemark::baselines
