#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "baselines/ops.h"

/// Comparison of an operator group with its plain form in float64, gradients too.
namespace noisemark::baselines {

enum class Order { kPlanes, kPixels, kStrided };

using Inputs = std::vector<at::Tensor>;

inline at::Tensor in_order(const at::Tensor& x, Order order) {
  if (order == Order::kPixels) return x.contiguous(at::MemoryFormat::ChannelsLast);
  if (order == Order::kStrided) return x.transpose(2, 3).contiguous().transpose(2, 3);
  return x;
}

using Group = std::function<at::Tensor(const Ops&, const Inputs&)>;

/// What one group computes and passes back.
struct Outcome {
  at::Tensor y;
  Inputs grads;
};

inline Outcome outcome(const Ops& ops, const Group& group, const Inputs& inputs,
                       const at::Tensor& dy) {
  Inputs leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
  const at::Tensor y = group(ops, leaves);
  return {y.detach(), torch::autograd::grad({y}, leaves, {dy.to(y.scalar_type())})};
}

inline Inputs upcast(const Inputs& tensors) {
  Inputs out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.to(at::kDouble));
  return out;
}

/// Largest difference, relative to the reference's largest value.
inline double error(const at::Tensor& x, const at::Tensor& reference) {
  const double size = reference.abs().max().item<double>();
  const double off = (x.to(at::kDouble) - reference).abs().max().item<double>();
  return size > 0 ? off / size : off;
}

/// Float32: sums of up to 1e4 terms in float32, so 1e-5. Bfloat16: the result is rounded to 8 bits
/// (2^-9 relative), everything before is float32 on the same bfloat16 inputs. Gradients of
/// parameters are float32 sums either way.
inline double output_tolerance(at::ScalarType type) {
  return type == at::kFloat ? 1e-5 : 0x1p-8;
}

/// The first of `inputs`, in memory order `order`, decides the type of the result.
inline void expect_equals_reference(const Group& group, const Inputs& inputs, Order order) {
  const at::ScalarType type = inputs[0].scalar_type();
  const at::Tensor dy = at::randn(group(plain_ops(), upcast(inputs)).sizes()).to(type);
  const Outcome fused = outcome(fused_ops(), group, inputs, in_order(dy, order));
  const Outcome exact = outcome(plain_ops(), group, upcast(inputs), dy.to(at::kDouble));
  EXPECT_EQ(fused.y.scalar_type(), type);
  EXPECT_LE(error(fused.y, exact.y), output_tolerance(type));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(fused.grads[i].scalar_type(), inputs[i].scalar_type()) << i;
    EXPECT_EQ(fused.grads[i].sizes(), inputs[i].sizes()) << i;
    EXPECT_LE(error(fused.grads[i], exact.grads[i]), output_tolerance(inputs[i].scalar_type()))
        << "gradient of input " << i;
  }
  if (order != Order::kStrided) {
    EXPECT_EQ(fused.y.strides(), in_order(fused.y, order).strides())
        << "the memory order of the input is lost";
    EXPECT_EQ(fused.grads[0].strides(), inputs[0].strides());
  }
}

}  // namespace noisemark::baselines
