#include "memopt/backward_watch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace noisemark::memopt {
namespace {

/// Runs what it is told of `times` more times.
class Repeater final : public BackwardWatcher {
 public:
  Repeater(std::vector<at::Tensor> leaves, int times) : leaves_(std::move(leaves)), times_(times) {}
  void before_backward(const BackwardAgain& again) override {
    ++told;
    for (int i = 0; i < times_; ++i) gradients = again(leaves_);
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

TEST_F(BackwardWatch, leaves_out_passes_that_are_differentiated_and_those_of_other_threads) {
  const auto repeater = std::make_shared<Repeater>(std::vector{x_}, 1);
  watch_backward(repeater);
  loss().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  std::thread([this] { (other_ * other_).sum().backward(); }).join();
  EXPECT_EQ(repeater->told, 0);
}

}  // namespace
}  // namespace noisemark::memopt
