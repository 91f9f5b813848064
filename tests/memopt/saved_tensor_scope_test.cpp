#include "memopt/saved_tensor_scope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <stdexcept>
#include <thread>

namespace noisemark::memopt {
namespace {

/// Keeps a copy, and doubles it on the way back so that the use of the hook shows in the gradient.
class DoublingHooks final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override { kept_ = tensor.detach().clone(); }
  at::Tensor call_unpack_hook() override { return kept_ * 2; }

 private:
  at::Tensor kept_;
};

class DoublingSink final : public SavedTensorSink {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    ++offered;
    return std::make_unique<DoublingHooks>();
  }
  int offered = 0;
};

class RefusingSink final : public SavedTensorSink {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    ++offered;
    return nullptr;
  }
  int offered = 0;
};

/// d(x * x)/dx at 3: 6, as x is saved twice.
double gradient_of_square(const at::Tensor& x, const at::Tensor& y) {
  x.mutable_grad() = at::Tensor();
  y.backward();
  return x.grad().item<double>();
}

at::Tensor leaf() {
  return at::ones({}, at::kDouble).mul_(3).set_requires_grad(true);
}

TEST(SavedTensorScope, offers_every_saved_tensor_to_its_sink) {
  DoublingSink sink;
  const at::Tensor x = leaf();
  at::Tensor y;
  {
    const SavedTensorScope scope(sink);
    y = x * x;
  }
  EXPECT_EQ(sink.offered, 2);
  EXPECT_EQ(gradient_of_square(x, y), 12);  // hooks work after their scope has closed
}

TEST(SavedTensorScope, leaves_autograd_alone_outside_a_scope_and_when_the_sink_refuses) {
  const at::Tensor x = leaf();
  EXPECT_EQ(gradient_of_square(x, x * x), 6);
  RefusingSink sink;
  const SavedTensorScope scope(sink);
  EXPECT_EQ(gradient_of_square(x, x * x), 6);
  EXPECT_EQ(sink.offered, 2);
}

TEST(SavedTensorScope, asks_the_innermost_scope) {
  DoublingSink outer, inner;
  const at::Tensor x = leaf();
  const SavedTensorScope outer_scope(outer);
  at::Tensor y;
  {
    const SavedTensorScope inner_scope(inner);
    y = x * x;
  }
  EXPECT_EQ(inner.offered, 2);
  EXPECT_EQ(outer.offered, 0);
  y = x * x;
  EXPECT_EQ(outer.offered, 2);
}

TEST(SavedTensorScope, concerns_its_own_thread_alone) {
  DoublingSink sink;
  const SavedTensorScope scope(sink);
  double gradient = 0;
  std::thread([&] {
    const at::Tensor x = leaf();
    gradient = gradient_of_square(x, x * x);
  }).join();
  EXPECT_EQ(gradient, 6);
  EXPECT_EQ(sink.offered, 0);
}

TEST(SavedTensorScope, closes_when_a_step_throws) {
  DoublingSink sink;
  const at::Tensor x = leaf();
  try {
    const SavedTensorScope scope(sink);
    throw std::runtime_error("in the middle of a step");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(gradient_of_square(x, x * x), 6);
  EXPECT_EQ(sink.offered, 0);
}

}  // namespace
}  // namespace noisemark::memopt
