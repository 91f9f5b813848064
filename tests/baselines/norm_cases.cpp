#include "tests/baselines/norm_cases.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace noisemark::baselines::test {
namespace {

Inputs upcast(const Inputs& tensors) {
  Inputs out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.to(at::kDouble));
  return out;
}

}  // namespace

std::vector<NormCase> norm_cases(const std::vector<NormShape>& shapes) {
  std::vector<NormCase> all;
  for (const NormShape& s : shapes) {
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

Outcome outcome(const Ops& ops, const Group& group, const Inputs& inputs, const at::Tensor& dy) {
  Inputs leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
  const at::Tensor y = group(ops, leaves);
  return {y.detach(), torch::autograd::grad({y}, leaves, {dy.to(y.scalar_type())})};
}

Outcome exact_outcome(const Group& group, const Inputs& inputs, const at::Tensor& dy) {
  return outcome(plain_ops(), group, upcast(inputs), dy.to(at::kDouble));
}

double error(const at::Tensor& x, const at::Tensor& reference) {
  const double size = reference.abs().max().item<double>();
  const double off = (x.to(at::kDouble) - reference.to(at::kDouble)).abs().max().item<double>();
  return size > 0 ? off / size : off;
}

double tolerance(at::ScalarType type) {
  return type == at::kFloat ? 1e-5 : 0x1p-8;
}

void expect_right(const NormCase& c, const Inputs& inputs, const Outcome& tested,
                  const Outcome& exact) {
  EXPECT_EQ(tested.y.scalar_type(), c.type);
  EXPECT_LE(error(tested.y, exact.y), tolerance(c.type));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(tested.grads[i].scalar_type(), inputs[i].scalar_type()) << i;
    EXPECT_EQ(tested.grads[i].sizes(), inputs[i].sizes()) << i;
    EXPECT_LE(error(tested.grads[i], exact.grads[i]), tolerance(inputs[i].scalar_type()))
        << "gradient of input " << i;
  }
  if (c.order == Order::kStrided) return;
  EXPECT_EQ(tested.y.strides(), inputs[0].strides()) << "the memory order of the input is lost";
  EXPECT_EQ(tested.grads[0].strides(), inputs[0].strides());
}

void for_each_case(const std::vector<NormCase>& cases, const GroupOfCase& group,
                   const std::function<Inputs(const NormCase&)>& more,
                   const std::function<void(const NormCase&, const Group&, const Inputs&)>& check,
                   int64_t least_channels) {
  at::manual_seed(7);
  for (const NormCase& c : cases) {
    if (c.sizes[1] < least_channels) continue;
    SCOPED_TRACE(c.name);
    Inputs inputs = {in_order((at::randn(c.sizes) * 2 + 0.5).to(c.type), c.order)};
    for (const at::Tensor& input : more(c)) inputs.push_back(input);
    check(
        c, [&](const Ops& ops, const Inputs& in) { return group(c, ops, in); }, inputs);
  }
}

Inputs weight_and_bias(const NormCase& c) {
  return {at::randn({c.sizes[1]}), at::randn({c.sizes[1]})};
}

Inputs weight_and_bias_away_from_zero(const NormCase& c) {
  const int64_t channels = c.sizes[1];
  return {at::rand({channels}) * 0.1 + 0.1,
          at::randn({channels}).sign() * (at::rand({channels}) + 2)};
}

Inputs just_g(const NormCase& c) {
  return {at::randn({1, c.sizes[1], 1, 1})};
}

Inputs g_scale_shift(const NormCase& c) {
  const int64_t channels = c.sizes[1];
  const at::Tensor both = at::randn({c.sizes[0], 2 * channels, 1, 1}).to(c.type);
  return {at::randn({1, channels, 1, 1}), both.slice(1, 0, channels), both.slice(1, channels)};
}

GroupOfCase group_norm_then(Activation activation) {
  return [activation](const NormCase& c, const Ops& ops, const Inputs& in) {
    return ops.group_norm_act(in[0], c.groups, in[1], in[2], 1e-5, activation);
  };
}

at::Tensor group_norm_alone(const NormCase& c, const Ops& ops, const Inputs& in) {
  return ops.group_norm(in[0], c.groups, in[1], in[2], 1e-6);
}

at::Tensor rms_norm_alone(const NormCase& /*c*/, const Ops& ops, const Inputs& in) {
  return ops.rms_norm(in[0], in[1]);
}

at::Tensor rms_norm_film(const NormCase& /*c*/, const Ops& ops, const Inputs& in) {
  return ops.rms_norm_film_silu(in[0], in[1], in[2], in[3]);
}

}  // namespace noisemark::baselines::test
