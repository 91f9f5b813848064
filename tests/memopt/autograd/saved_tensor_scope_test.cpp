#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode.h"
#include "tests/memopt/nets.h"

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

at::Tensor three() {
  return at::ones({}, at::kDouble).mul_(3).set_requires_grad(true);
}

TEST(SavedTensorScope, offers_every_saved_tensor_to_its_sink) {
  DoublingSink sink;
  const at::Tensor x = three();
  at::Tensor y;
  {
    const SavedTensorScope scope(sink);
    y = x * x;
  }
  EXPECT_EQ(sink.offered, 2);
  EXPECT_EQ(gradient_of_square(x, y), 12);  // hooks work after their scope has closed
}

TEST(SavedTensorScope, leaves_autograd_alone_outside_a_scope_and_when_the_sink_refuses) {
  const at::Tensor x = three();
  EXPECT_EQ(gradient_of_square(x, x * x), 6);
  RefusingSink sink;
  const SavedTensorScope scope(sink);
  EXPECT_EQ(gradient_of_square(x, x * x), 6);
  EXPECT_EQ(sink.offered, 2);
}

TEST(SavedTensorScope, may_end_before_one_inside_of_it) {
  DoublingSink outer, inner;
  const at::Tensor x = three();
  auto outer_scope = std::make_unique<SavedTensorScope>(outer);
  auto inner_scope = std::make_unique<SavedTensorScope>(inner);
  outer_scope.reset();
  at::Tensor y = x * x;
  EXPECT_EQ(inner.offered, 2);
  inner_scope.reset();
  EXPECT_FALSE(inside_scope());
  EXPECT_EQ(gradient_of_square(x, x * x), 6);
  EXPECT_EQ(outer.offered, 0);
}

TEST(SavedTensorScope, is_part_of_a_pass_that_the_last_scope_of_its_sink_ends) {
  struct Counting final : SavedTensorSink {
    std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override { return nullptr; }
    void begin_forward() override { ++begun; }
    void end_forward() override { ++ended; }
    int begun = 0, ended = 0;
  };
  Counting sink;
  auto first = std::make_unique<SavedTensorScope>(sink);
  auto second = std::make_unique<SavedTensorScope>(sink);
  first.reset();
  EXPECT_EQ(sink.ended, 0);
  second.reset();
  EXPECT_EQ(sink.begun, 1);
  EXPECT_EQ(sink.ended, 1);
}

TEST(SavedTensorScopeDeathTest, ends_the_program_where_it_ends_on_another_thread) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        DoublingSink sink;
        auto scope = std::make_unique<SavedTensorScope>(sink);
        std::thread([&scope] { scope.reset(); }).join();
      },
      "a scope ended on another thread than it began on");
}

TEST(SavedTensorScopeDeathTest, ends_the_program_where_its_mode_is_destroyed_before_it) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        auto sink = std::make_unique<DoublingSink>();
        const SavedTensorScope scope(*sink);
        sink.reset();
      },
      "a mode was destroyed while a scope of it was open");
}

TEST(SavedTensorScope, asks_the_innermost_scope) {
  DoublingSink outer, inner;
  const at::Tensor x = three();
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
    const at::Tensor x = three();
    gradient = gradient_of_square(x, x * x);
  }).join();
  EXPECT_EQ(gradient, 6);
  EXPECT_EQ(sink.offered, 0);
}

TEST(SavedTensorScope, closes_when_a_step_throws) {
  DoublingSink sink;
  const at::Tensor x = three();
  try {
    const SavedTensorScope scope(sink);
    throw std::runtime_error("in the middle of a step");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(gradient_of_square(x, x * x), 6);
  EXPECT_EQ(sink.offered, 0);
}

/// The bytes that a forward pass leaves live, and the most that a whole step has live, beyond what
/// there was.
struct StepBytes {
  int64_t live = 0;
  int64_t peak = 0;
  int64_t left = 0;
  bool operator==(const StepBytes&) const = default;
};

StepBytes bytes_of_step(test::SmallNet& net, const at::Tensor& x, SavedTensorSink* sink) {
  const int64_t before = cpu_allocation_source().live_bytes();
  HighMark high(cpu_allocation_source());
  StepBytes bytes;
  {
    std::optional<SavedTensorScope> scope;
    if (sink != nullptr) scope.emplace(*sink);
    const at::Tensor loss = at::mse_loss(net.forward(x), x);
    scope.reset();
    bytes.live = cpu_allocation_source().live_bytes() - before;
    loss.backward();
  }
  net.zero_grad();
  bytes.peak = high.take() - before;
  bytes.left = cpu_allocation_source().live_bytes() - before;
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

class KeepingSink final : public SavedTensorSink {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return std::make_unique<KeepingHooks>();
  }
};

TEST(KeepingHooks, change_no_bit_of_a_gradient) {
  test::SmallNet net;
  const at::Tensor x = at::randn({2, 3, 8, 8});
  net.forward(x).square().mean().backward();
  std::vector<at::Tensor> expected;
  for (const at::Tensor& p : net.parameters) expected.push_back(p.grad());
  net.zero_grad();
  KeepingSink sink;
  const SavedTensorScope scope(sink);
  net.forward(x).square().mean().backward();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(net.parameters[i].grad().equal(expected[i])) << i;
  }
}

TEST(KeepingHooks, refuse_a_tensor_that_was_changed_in_place) {
  KeepingSink sink;
  const SavedTensorScope scope(sink);
  const at::Tensor x = at::randn({4}).set_requires_grad(true);
  const at::Tensor y = at::sigmoid(x);  // saves its own result
  const at::Tensor z = y.sum();
  {
    const c10::NoGradGuard no_grad;
    y.mul_(2);
  }
  EXPECT_THROW(z.backward(), c10::Error);
}

TEST(KeepingHooks, hand_out_the_tensor_as_often_as_backward_runs) {
  KeepingSink sink;
  const SavedTensorScope scope(sink);
  const at::Tensor x = at::randn({4}).set_requires_grad(true);
  const at::Tensor z = at::sigmoid(x).sum();
  z.backward({}, /*retain_graph=*/true);
  const at::Tensor once = x.grad().clone();
  z.backward();
  EXPECT_TRUE(x.grad().equal(once * 2));
}

TEST(KeepingHooks, hand_out_the_memory_that_set_data_gave_and_let_it_go_with_the_graph) {
  KeepingSink sink;
  const at::Tensor x = at::randn({4}).set_requires_grad(true);
  c10::weak_intrusive_ptr<c10::StorageImpl> storage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim(nullptr));
  {
    at::Tensor loss;
    {
      const SavedTensorScope scope(sink);
      const at::Tensor h = x * 3;
      loss = h.square().sum();  // it saves h, which goes before backward
      const at::Tensor given = at::ones({4});
      storage = c10::weak_intrusive_ptr<c10::StorageImpl>(given.storage().getWeakStorageImpl());
      h.set_data(given);
    }
    loss.backward();
  }
  EXPECT_TRUE(x.grad().equal(at::full({4}, 6.0F)));
  EXPECT_TRUE(storage.expired());
}

TEST(KeepingHooks, leave_no_cycle_behind) {
  KeepingSink sink;
  const at::Tensor x = at::randn({4}).set_requires_grad(true);
  c10::weak_intrusive_ptr<c10::StorageImpl> storage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim(nullptr));
  {
    const SavedTensorScope scope(sink);
    const at::Tensor y = at::relu(x);
    storage = c10::weak_intrusive_ptr<c10::StorageImpl>(y.storage().getWeakStorageImpl());
  }
  EXPECT_TRUE(storage.expired());
}

}  // namespace

namespace {

/// Runs what it is told of `times` more times.
class Repeater final : public BackwardWatcher {
 public:
  Repeater(std::vector<at::Tensor> leaves, int times) : leaves_(std::move(leaves)), times_(times) {}
  void before_backward(const BackwardToCome& backward) override {
    ++told;
    for (int i = 0; i < times_; ++i) gradients = backward.again(leaves_);
  }

  int told = 0;
  std::vector<at::Tensor> gradients;

 private:
  std::vector<at::Tensor> leaves_;
  int times_;
};

class BackwardWatch : public testing::Test {
 protected:
  ~BackwardWatch() override { watch_backward({}); }

  at::Tensor loss() const { return (x_ * x_).sum(); }
  at::Tensor x_ = at::randn({5}).set_requires_grad(true);
  at::Tensor other_ = at::randn({5}).set_requires_grad(true);
};

TEST_F(BackwardWatch, repeats_a_pass_that_has_not_begun_and_changes_nothing) {
  const auto repeater = std::make_shared<Repeater>(std::vector{x_, other_}, 3);
  watch_backward(repeater);
  loss().backward();
  EXPECT_EQ(repeater->told, 1);
  ASSERT_EQ(repeater->gradients.size(), 2U);
  EXPECT_TRUE(repeater->gradients[0].equal(x_.grad()));
  EXPECT_FALSE(repeater->gradients[1].defined()) << "the loss does not depend on it";
  EXPECT_TRUE(x_.grad().equal(2 * x_.detach())) << "accumulated once";
}

TEST_F(BackwardWatch, lets_the_graph_go_where_nobody_asked_to_keep_it) {
  const auto repeater = std::make_shared<Repeater>(std::vector{x_}, 1);
  watch_backward(repeater);
  const at::Tensor once = loss();
  once.backward();
  EXPECT_THROW(once.backward(), std::exception);
}

TEST_F(BackwardWatch, ends_with_the_watcher) {
  auto repeater = std::make_shared<Repeater>(std::vector{x_}, 1);
  watch_backward(repeater);
  repeater.reset();
  loss().backward();
  EXPECT_TRUE(x_.grad().defined());
}

/// Asks what runs in a pass after it has put a hook of its own on one of its tensors.
class Asker final : public BackwardWatcher {
 public:
  explicit Asker(at::Tensor leaf) : leaf_(std::move(leaf)) {}
  void before_backward(const BackwardToCome& backward) override {
    before = backward.is_of_library();
    leaf_.register_hook([](const at::Tensor& gradient) { return gradient; });
    after = backward.is_of_library();
  }

  bool before = false;
  bool after = true;

 private:
  at::Tensor leaf_;
};

TEST_F(BackwardWatch, walks_the_graph_when_it_is_asked_what_runs_in_it) {
  const auto asker = std::make_shared<Asker>(x_);
  watch_backward(asker);
  loss().backward();
  EXPECT_TRUE(asker->before);
  EXPECT_FALSE(asker->after);
}

TEST_F(BackwardWatch, leaves_out_passes_that_are_differentiated_and_those_of_other_threads) {
  const auto repeater = std::make_shared<Repeater>(std::vector{x_}, 1);
  watch_backward(repeater);
  loss().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  std::thread([this] { (other_ * other_).sum().backward(); }).join();
  EXPECT_EQ(repeater->told, 0);
}

}  // namespace
}  // namespace noisemark::memopt
