#include "memopt/saved_tensor_scope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "memopt/mode.h"
#include "memopt/tracking_allocator.h"
#include "tests/memopt/small_net.h"

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

/// What a forward pass leaves live, and the most that a whole step has live, beyond what there was.
struct StepBytes {
  int64_t live = 0;
  int64_t peak = 0;
  int64_t left = 0;
  bool operator==(const StepBytes&) const = default;
};

StepBytes bytes_of_step(test::SmallNet& net, const at::Tensor& x, SavedTensorSink* sink) {
  const int64_t before = cpu_allocator_totals().live_bytes;
  reset_cpu_allocator_peak();
  StepBytes bytes;
  {
    std::optional<SavedTensorScope> scope;
    if (sink != nullptr) scope.emplace(*sink);
    const at::Tensor loss = at::mse_loss(net.forward(x), x);
    scope.reset();
    bytes.live = cpu_allocator_totals().live_bytes - before;
    loss.backward();
  }
  net.zero_grad();
  bytes.peak = cpu_allocator_totals().peak_bytes - before;
  bytes.left = cpu_allocator_totals().live_bytes - before;
  return bytes;
}

TEST(SavedTensorScope, of_mode_none_takes_no_byte) {
  test::SmallNet net;
  const at::Tensor x = at::randn({2, 3, 16, 16});
  static_cast<void>(bytes_of_step(net, x, nullptr));  // LibTorch takes some memory for good
  const StepBytes without = bytes_of_step(net, x, nullptr);
  EXPECT_GT(without.live, 0);
  EXPECT_GT(without.peak, without.live);
  EXPECT_EQ(without.left, 0);
  const std::unique_ptr<Mode> none = make_mode("none");
  EXPECT_EQ(bytes_of_step(net, x, none.get()), without);
  DoublingSink copies;
  EXPECT_GT(bytes_of_step(net, x, &copies).live, without.live) << "copies would be seen";
}

}  // namespace
}  // namespace noisemark::memopt
