/// A mode on a device that alone knows whether what was made again is what forward had, with a CPU
/// in its place: the same hidden changes as in changed_path_test.cpp, but backward cannot tell.

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "memopt/device_parts.h"
#include "memopt/mode_grammar.h"
#include "memopt/policies.h"
#include "memopt/repeated_work.h"
#include "tests/memopt/mode_run.h"

namespace noisemark::memopt::test {
namespace {

/// From this step on the model is another one: the plan is followed from the fourth.
constexpr int64_t kChange = 6;

class LateMode final : public PlannedMode {
 public:
  explicit LateMode(const std::string& mode)
      : PlannedMode(mode, true, policy_of(parse_mode(mode))) {}

 private:
  [[nodiscard]] const replay::SampleDevice* late_comparison() const override {
    return find_sample_device(at::kCPU);
  }
};

/// Which of two tensors without history it reads, of which the mode was not told, shows nowhere.
MakeModel hidden_change(const std::shared_ptr<bool>& changed) {
  return [changed] {
    TestModel model;
    const at::Tensor x = at::randn({16, 32});
    const at::Tensor a = at::randn({32, 32}).mul_(0.2).set_requires_grad(true);
    const at::Tensor b = at::randn({32, 32}).mul_(0.2).set_requires_grad(true);
    const at::Tensor one = at::randn({32});
    const at::Tensor other = at::randn({32});
    model.view.parameters = {{"a.weight", a}, {"b.weight", b}};
    model.loss = [=] {
      const at::Tensor h = at::linear(x, a);
      const at::Tensor y = at::silu(h);
      const at::Tensor both = y * one + y * other;
      return at::linear(both * at::silu(h + (*changed ? other : one)), b).square().sum();
    };
    return model;
  };
}

class LateComparison : public testing::Test {
 protected:
  void SetUp() override {
    for (int64_t number = 1; number < kChange; ++number) {
      expect_equal(none_.step(number), run_.step(number));
      ASSERT_NO_THROW(run_.mode().check_step());
    }
    ASSERT_GT(run_.report().followed_passes, 0);
    level_ = live_bytes();
  }

  const std::shared_ptr<bool> changed_ = std::make_shared<bool>(false);
  ModeRun none_{"none", hidden_change(changed_)};
  ModeRun run_{std::make_unique<LateMode>("echo"), hidden_change(changed_)};
  int64_t level_ = 0;
};

TEST_F(LateComparison, finds_when_the_step_is_checked_what_backward_could_not) {
  *changed_ = true;
  ASSERT_NO_THROW(static_cast<void>(run_.step(kChange)));
  try {
    run_.mode().check_step();
    FAIL() << "a gradient of the old path was let by";
  } catch (const c10::Error& error) {
    const std::string words = error.what_without_backtrace();
    EXPECT_NE(words.find("the result of aten::mul, of shape [16, 32]"), std::string::npos) << words;
    EXPECT_NE(words.find("aten::mm saved"), std::string::npos) << words;
    EXPECT_NE(words.find("is not what forward had"), std::string::npos) << words;
  }
  EXPECT_EQ(run_.report().counters.mismatches, 1);
  EXPECT_EQ(live_bytes(), level_);
}

TEST_F(LateComparison, keeps_from_the_next_step_on_what_differed) {
  *changed_ = true;
  static_cast<void>(run_.step(kChange));
  EXPECT_THROW(run_.mode().check_step(), c10::Error);
  for (int64_t number = kChange + 1; number < kChange + 4; ++number) {
    expect_equal(none_.step(number), run_.step(number));
    EXPECT_NO_THROW(run_.mode().check_step());
  }
  EXPECT_GE(run_.report().kept_after_mismatch, 1);
  EXPECT_EQ(run_.report().counters.mismatches, 1);
  EXPECT_EQ(run_.report().missing_reason, "");
}

TEST_F(LateComparison, tells_when_the_next_step_begins_where_nobody_checks) {
  *changed_ = true;
  static_cast<void>(run_.step(kChange));
  EXPECT_THROW(run_.begin(kChange + 1), c10::Error);
  ASSERT_NO_THROW(run_.begin(kChange + 1)) << "it has been told";
  static_cast<void>(run_.take_gradients());
}

TEST_F(LateComparison, asks_nothing_at_the_beginning_of_a_step_that_is_recorded_for_repetition) {
  *changed_ = true;
  static_cast<void>(run_.step(kChange));
  {
    const RepeatedWorkScope recording;
    EXPECT_NO_THROW(run_.begin(kChange + 1));
    EXPECT_NO_THROW(recording.check());
  }
  EXPECT_THROW(run_.mode().check_step(), c10::Error);
}

TEST_F(LateComparison, hears_a_backward_that_comes_after_its_step) {
  *changed_ = true;
  run_.begin(kChange);
  {
    const at::Tensor loss = run_.forward();
    run_.mode().end_step();
    ASSERT_NO_THROW(run_.mode().check_step());
    loss.backward();
  }
  EXPECT_THROW(run_.mode().check_step(), c10::Error);
  static_cast<void>(run_.take_gradients());
}

/// Between forward and backward.
int64_t held_bytes(ModeRun& run, int64_t number) {
  const int64_t before = live_bytes();
  run.begin(number);
  int64_t held = 0;
  {
    const at::Tensor loss = run.forward();
    held = live_bytes() - before;
    loss.backward();
  }
  run.mode().end_step();
  static_cast<void>(run.take_gradients());
  return held;
}

TEST_F(LateComparison, holds_eight_bytes_for_each_slot) {
  ModeRun at_once("echo", hidden_change(changed_));
  for (int64_t number = 1; number < kChange; ++number) static_cast<void>(at_once.step(number));
  const auto slots = std::ssize(dynamic_cast<const PlannedMode&>(run_.mode()).plan()->slots);
  EXPECT_EQ(held_bytes(run_, kChange) - held_bytes(at_once, kChange), 8 * slots);
}

}  // namespace
}  // namespace noisemark::memopt::test
