#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/device/repeated_work.h"
#include "memopt/modes/mode_grammar.h"
#include "memopt/modes/planned_mode.h"
#include "memopt/modes/policies.h"
#include "memopt/replay/held_values.h"
#include "memopt/replay/value_samples.h"
#include "tests/memopt/mode_run.h"

/// A device that answers late whether an encoding holds: nobody waits for it, nothing is let go
/// before it has answered, and what it says goes as soon as a pass comes by.

namespace noisemark::memopt {
namespace {

using State = DeviceAnswer::State;
constexpr int kNever = std::numeric_limits<int>::max();

/// A device's answers, in a test's hands.
struct Device {
  State end = State::kHolds;
  int late = kNever;  ///< questions until it has answered
  int asked = 0;
  int waited = 0;
  std::optional<at::ScalarType> told;  ///< the type that the last tensor was cast from
};

class LateAnswer final : public DeviceAnswer {
 public:
  explicit LateAnswer(std::shared_ptr<Device> device)
      : device_(std::move(device)), end_(device_->end), left_(device_->late) {}
  State poll() override {
    if (answered_) return end_;
    ++device_->asked;
    answered_ = left_ != kNever && left_-- <= 0;
    return answered_ ? end_ : State::kPending;
  }
  State wait() override {
    if (!std::exchange(answered_, true)) ++device_->waited;
    return end_;
  }
  void answer() { answered_ = true; }

 private:
  std::shared_ptr<Device> device_;
  State end_;
  int left_;
  bool answered_ = false;
};

/// Copies. What it loses decodes to zeros, and what it rounds to ones.
class LateCodec final : public Codec {
 public:
  LateCodec(std::shared_ptr<Device> device, std::string name, bool lossless = true)
      : device_(std::move(device)), name_(std::move(name)), lossless_(lossless) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] bool lossless() const override { return lossless_; }
  [[nodiscard]] std::optional<Encoded> encode(const at::Tensor& x,
                                              const EncodeKey& key) const override {
    const OwnerScope owner(Owner::kEncoded);
    device_->told = key.cast_from;
    Encoded encoded;
    encoded.parts = {device_->end == State::kLost ? at::zeros_like(x) : x.clone()};
    if (!lossless_) encoded.parts.front().fill_(1);
    encoded.answer = std::make_shared<LateAnswer>(device_);
    return encoded;
  }
  [[nodiscard]] at::Tensor decode(const Encoded& encoded) const override {
    TORCH_CHECK(encoded.answer->wait() == State::kHolds);
    return encoded.parts.front();
  }

 private:
  std::shared_ptr<Device> device_;
  std::string name_;
  bool lossless_;
};

/// Some saved values, each encoded by itself.
class Held {
 public:
  explicit Held(int values, bool lossless = true)
      : codec_(std::make_shared<LateCodec>(device, "late", lossless)) {
    auto graph = std::make_shared<StepGraph>();
    for (int v = 0; v < values; ++v) {
      RecordedValue value;
      value.storage = v;
      graph->values.push_back(value);
      graph->storages.emplace_back();
      ValueTreatment treatment;
      treatment.source = Source::kEncoded;
      treatment.codec = codec_.get();
      treatment.supplied_by = v;
      plan_.values.push_back(treatment);
      graph->slots.emplace_back();
    }
    plan_.graph = std::move(graph);
    held = std::make_unique<HeldValues>(plan_, EncodeKey{}, EncodeBy::kPlanned);
  }

  /// Its memory's only other holder is the returned weak reference.
  c10::weak_intrusive_ptr<c10::StorageImpl> bring(ValueId id) {
    const at::Tensor x = at::randn({16});
    held->bring(id, x);
    return c10::weak_intrusive_ptr<c10::StorageImpl>(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(x.storage().unsafeGetStorageImpl()));
  }

  std::shared_ptr<Device> device = std::make_shared<Device>();
  std::unique_ptr<HeldValues> held;

 private:
  std::shared_ptr<LateCodec> codec_;
  TreatmentPlan plan_;
};

TEST(LateAnswers, let_a_tensor_go_when_they_come_and_not_before) {
  Held some(1);
  some.device->late = 2;
  const auto memory = some.bring(0);
  for (int look = 0; look < 2; ++look) {
    some.held->settle_pending();
    EXPECT_FALSE(memory.expired()) << look;
  }
  some.held->settle_pending();
  EXPECT_TRUE(memory.expired());
  EXPECT_TRUE(some.held->is_encoded(0));
  EXPECT_EQ(some.device->waited, 0);
  EXPECT_TRUE(some.held->refused().empty());
}

TEST(LateAnswers, of_loss_keep_the_tensor_and_count) {
  Held some(1);
  some.device->end = State::kLost;
  some.device->late = 1;
  const auto memory = some.bring(0);
  some.held->settle_pending();
  EXPECT_TRUE(some.held->refused().empty()) << "it is not yet known";
  some.held->settle_pending();
  EXPECT_FALSE(memory.expired());
  EXPECT_FALSE(some.held->is_encoded(0));
  ASSERT_EQ(some.held->refused().size(), 1U);
  EXPECT_EQ(some.held->refused().front().form, "late");
  EXPECT_FALSE(some.held->get(0).equal(at::zeros_like(some.held->get(0))));
}

TEST(LateAnswers, are_asked_for_in_order_and_one_at_a_look_while_the_first_is_pending) {
  Held some(3);
  for (ValueId id = 0; id < 3; ++id) some.bring(id);
  for (int look = 1; look <= 5; ++look) {
    some.held->settle_pending();
    EXPECT_EQ(some.device->asked, look);
  }
  EXPECT_EQ(some.held->tensors().size(), 3U);
}

TEST(LateAnswers, that_are_pending_cost_the_encoding_nothing_but_its_use_and_the_host_no_wait) {
  Held some(1);
  const auto memory = some.bring(0);
  {
    const at::Tensor given = some.held->get(0);
    EXPECT_EQ(given.storage().unsafeGetStorageImpl(), memory._unsafe_get_target());
  }
  EXPECT_EQ(some.device->waited, 0);
}

TEST(LateAnswers, are_waited_for_where_the_bits_are_others) {
  Held rounding(1, /*lossless=*/false);
  rounding.bring(0);
  EXPECT_TRUE(rounding.held->get(0).equal(at::ones({16}))) << "whenever the device answers";
  EXPECT_EQ(rounding.device->waited, 1);

  Held changed(1);
  const at::Tensor x = at::ones({16});
  changed.held->bring(0, x);
  x.mul_(2);
  EXPECT_TRUE(changed.held->get(0).equal(at::ones({16}))) << "what was saved";
  EXPECT_EQ(changed.device->waited, 1);
}

TEST(LateAnswers, of_what_was_let_go_are_still_awaited) {
  Held some(3);
  for (ValueId id = 0; id < 3; ++id) some.bring(id);
  some.held->let_go(1);
  const std::vector<AwaitedAnswer> awaited = some.held->awaited();
  ASSERT_EQ(awaited.size(), 3U);
  EXPECT_EQ(awaited.front().if_lost.value, 1);
  some.held->settle_pending();
  for (const AwaitedAnswer& one : awaited) dynamic_cast<LateAnswer&>(*one.answer).answer();
  some.held->settle_pending();
  EXPECT_EQ(some.held->tensors().size(), 0U);
  EXPECT_EQ(some.held->awaited().size(), 1U) << "nobody has asked for that one";
}

TEST(LateAnswers, need_not_be_asked_for_where_the_codec_is_told_what_the_tensor_was_cast_from) {
  Held some(1);
  some.held->bring(0, at::ones({16}), at::kBFloat16);
  EXPECT_EQ(some.device->told, at::kBFloat16);
}

/// Two layers with a sigmoid between them, whose result alone is encoded.
class LateLayers {
 public:
  static constexpr int64_t kBytes = 128 * 128 * 4;

  explicit LateLayers(bool encodes) {
    Policy policy;
    policy.may_replay = [](const StepGraph&, const RecordedOperator&) { return false; };
    if (encodes)
      policy.codec = [this](const StepGraph& graph, ValueId id) { return of(graph, id); };
    mode_ = std::make_unique<PlannedMode>("late", true, policy);
    at::manual_seed(7);
    ModelView view;
    for (at::Tensor& weight : weights_) {
      weight = at::randn({128, 128}).mul_(0.1).set_requires_grad(true);
      view.parameters.emplace_back(std::to_string(view.parameters.size()) + ".weight", weight);
    }
    x_ = at::randn({128, 128});
    mode_->attach(view);
  }

  at::Tensor forward() {
    mode_->begin_step(++steps_);
    const SavedTensorScope scope(*mode_);
    const at::Tensor h = at::sigmoid(at::linear(x_, weights_[0]));
    return at::linear(h, weights_[1]).square().sum();
  }

  std::vector<at::Tensor> backward(const at::Tensor& loss) {
    loss.backward();
    mode_->end_step();
    std::vector<at::Tensor> gradients;
    for (at::Tensor& weight : weights_) {
      gradients.push_back(weight.grad());
      weight.mutable_grad() = at::Tensor();
    }
    return gradients;
  }

  std::vector<at::Tensor> step() { return backward(forward()); }

  void reach_the_plan() {
    device->late = 0;
    for (int i = 0; i < 4; ++i) static_cast<void>(step());
    ASSERT_EQ(mode_->report().missing_reason, "");
    ASSERT_GT(mode_->report().plan.encoded_from_bytes, 0);
    device->waited = 0;
  }

  [[nodiscard]] PlannedMode& mode() { return *mode_; }

  std::shared_ptr<Device> device = std::make_shared<Device>();

 private:
  std::vector<std::shared_ptr<const Codec>> of(const StepGraph& graph, ValueId id) const {
    const RecordedOperator* producer = graph.producer_of(id);
    if (producer == nullptr || producer->name != "aten::sigmoid") return {};
    return {first_, second_};
  }

  std::shared_ptr<const Codec> first_ = std::make_shared<LateCodec>(device, "late");
  std::shared_ptr<const Codec> second_ = std::make_shared<LateCodec>(device, "later");
  std::unique_ptr<PlannedMode> mode_;
  std::array<at::Tensor, 2> weights_;
  at::Tensor x_;
  int64_t steps_ = 0;
};

/// Live bytes between a forward pass and its backward, when the device has answered after so many
/// looks.
int64_t live_before_backward(int late) {
  LateLayers layers(/*encodes=*/true);
  layers.reach_the_plan();
  layers.device->late = late;
  const int64_t before = cpu_allocation_source().live_bytes();
  const at::Tensor loss = layers.forward();
  const int64_t live = cpu_allocation_source().live_bytes() - before;
  static_cast<void>(layers.backward(loss));
  EXPECT_EQ(layers.device->waited, 0) << "the host is never stopped";
  return live;
}

TEST(LateAnswers, free_what_was_saved_before_backward_begins) {
  const int64_t at_once = live_before_backward(0);
  EXPECT_EQ(live_before_backward(2), at_once) << "a later tensor is saved, or forward ends";
  EXPECT_EQ(live_before_backward(kNever), at_once + LateLayers::kBytes) << "nobody knows yet";
}

TEST(LateAnswers, that_come_between_forward_and_backward_are_heard_when_somebody_asks) {
  LateLayers layers(/*encodes=*/true);
  layers.reach_the_plan();
  layers.device->late = kNever;
  const at::Tensor loss = layers.forward();
  EXPECT_EQ(layers.mode().held().size(), 1U);
  static_cast<void>(layers.backward(loss));
  layers.device->late = 4;
  const at::Tensor next = layers.forward();
  while (!layers.mode().held().empty()) ASSERT_LT(layers.device->asked, 100);
  static_cast<void>(layers.backward(next));
}

TEST(LateAnswers, change_no_gradient_whenever_they_come_and_whatever_they_say) {
  LateLayers none(/*encodes=*/false);
  LateLayers layers(/*encodes=*/true);
  for (int step = 0; step < 4; ++step) static_cast<void>(none.step());
  layers.reach_the_plan();
  for (const State end : {State::kHolds, State::kLost}) {
    for (const int late : {0, 1, 3, 6, kNever}) {
      layers.device->end = end;
      layers.device->late = late;
      const std::vector<at::Tensor> expected = none.step();
      const std::vector<at::Tensor> got = layers.step();
      for (size_t w = 0; w < got.size(); ++w) EXPECT_TRUE(got[w].equal(expected[w])) << late;
    }
  }
}

TEST(LateAnswers, of_loss_that_come_after_their_pass_count_and_lead_to_the_next_codec) {
  LateLayers layers(/*encodes=*/true);
  layers.reach_the_plan();
  layers.device->end = State::kLost;
  layers.device->late = kNever;
  for (int step = 0; step < 2; ++step) static_cast<void>(layers.step());
  EXPECT_EQ(layers.mode().report().counters.codec_fallbacks, 0) << "it is not yet known";
  layers.device->late = 30;  // passes that begin now get answers later than one asks
  for (int step = 0; step < 2; ++step) static_cast<void>(layers.step());
  for (int step = 0; step < 60; ++step) static_cast<void>(layers.step());
  EXPECT_GE(layers.mode().report().counters.codec_fallbacks, 2);
  const TreatmentPlan& plan = *layers.mode().plan();
  const bool replaced =
      std::none_of(plan.values.begin(), plan.values.end(), [](const ValueTreatment& value) {
        return value.codec != nullptr && value.codec->name() == "late";
      });
  EXPECT_TRUE(replaced);
}

TEST(LateAnswers, are_not_asked_for_while_a_step_is_recorded) {
  LateLayers layers(/*encodes=*/true);
  layers.reach_the_plan();
  layers.device->late = kNever;
  static_cast<void>(layers.step());
  const int asked = layers.device->asked;
  {
    const RepeatedWorkScope recording;
    layers.mode().end_step();
  }
  EXPECT_EQ(layers.device->asked, asked);
  layers.mode().end_step();
  EXPECT_GT(layers.device->asked, asked);
}

}  // namespace
}  // namespace noisemark::memopt

/// A mode on a device that alone knows whether what was made again is what forward had, with a CPU
/// in its place: the same hidden changes as in changed_path_test.cpp, but backward cannot tell.

namespace noisemark::memopt::test {
namespace {

class LateMode final : public PlannedMode {
 public:
  explicit LateMode(const std::string& mode)
      : PlannedMode(mode, true, policy_of(parse_mode(mode))) {}

 private:
  [[nodiscard]] const replay::SampleDevice* late_comparison() const override {
    return find_sample_device(at::kCPU);
  }
};

/// Nothing shows which of two tensors without history it reads, of which the mode was not told.
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

/// Returns the bytes that are held between forward and backward.
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
