#include "memopt/keeping_hooks.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "memopt/saved_tensor_scope.h"
#include "tests/memopt/small_net.h"

namespace noisemark::memopt {
namespace {

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
}  // namespace noisemark::memopt
