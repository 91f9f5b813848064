#include "memopt/treatment/treatment.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/mse_loss.h>
#include <gtest/gtest.h>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/planned_mode.h"
#include "tests/memopt/nets.h"

namespace noisemark::memopt {
namespace {

/// A storage that a step saved, and what a plan does with it.
struct Saved {
  const char* made_by;  ///< is null for nobody who was seen
  int64_t bytes;
  Source source;
  KeepReason reason = KeepReason::kNone;
  bool external = false;
};

RecordedOperator operator_named(const char* name) {
  static const c10::OperatorHandle kAny =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu", "");
  return {.handle = kAny, .name = name, .arguments = {}, .results = {}};
}

/// Every storage holds one value, which is saved twice.
TreatmentPlan plan_with(const std::vector<Saved>& all) {
  auto graph = std::make_shared<StepGraph>();
  TreatmentPlan plan;
  for (const Saved& saved : all) {
    const auto id = static_cast<ValueId>(graph->values.size());
    RecordedValue value;
    value.storage = static_cast<int32_t>(id);
    value.sizes = {saved.bytes / 4};
    value.strides = {1};
    if (saved.made_by != nullptr) {
      value.origin = RecordedValue::Origin::kComputed;
      value.producer = static_cast<OperatorId>(graph->operators.size());
      graph->operators.push_back(operator_named(saved.made_by));
    }
    RecordedStorage storage;
    storage.bytes = saved.bytes;
    storage.values = {id};
    storage.external = saved.external;
    graph->values.push_back(value);
    graph->storages.push_back(storage);
    ValueTreatment treatment;
    treatment.source = saved.source;
    treatment.reason = saved.reason;
    plan.values.push_back(treatment);
    for (int i = 0; i < 2; ++i) {
      SlotTreatment slot;
      slot.value = id;
      plan.slots.push_back(slot);
    }
  }
  plan.graph = graph;
  return plan;
}

const std::vector<Saved>& one_of_each() {
  static const std::vector<Saved> kAll = {
      {"aten::convolution", 64, Source::kHeld, KeepReason::kNotAllowed},
      {"aten::cat", 512, Source::kHeld, KeepReason::kCrossesSegments},
      {"aten::convolution", 128, Source::kHeld, KeepReason::kNotAllowed},
      {"aten::convolution", 32, Source::kHeld, KeepReason::kMustBeKept},
      {"aten::native_group_norm", 4, Source::kHeld, KeepReason::kSmall},
      {nullptr, 16, Source::kHeld, KeepReason::kForeign},
      {"aten::bernoulli_", 256, Source::kEncoded, KeepReason::kUnrepeatable},
      {"aten::silu", 2048, Source::kMadeAgain},
      {nullptr, 4096, Source::kHeld, KeepReason::kForeign, /*external=*/true},
  };
  return kAll;
}

TEST(HeldGroups, are_by_operator_and_reason_the_largest_first_each_storage_once) {
  const std::vector<HeldGroup> groups = held_groups(plan_with(one_of_each()));
  struct Expected {
    const char* made_by;
    KeepReason reason;
    int64_t storages, bytes;
  };
  const std::vector<Expected> expected = {
      {"aten::cat", KeepReason::kCrossesSegments, 1, 512},
      {"aten::convolution", KeepReason::kNotAllowed, 2, 192},
      {"aten::convolution", KeepReason::kMustBeKept, 1, 32},
      {"outside", KeepReason::kForeign, 1, 16},
      {"aten::native_group_norm", KeepReason::kSmall, 1, 4},
  };
  ASSERT_EQ(groups.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(groups[i].made_by, expected[i].made_by) << i;
    EXPECT_EQ(groups[i].reason, expected[i].reason) << i;
    EXPECT_EQ(groups[i].storages, expected[i].storages) << i;
    EXPECT_EQ(groups[i].bytes, expected[i].bytes) << i;
  }
}

TEST(HeldGroups, have_the_reasons_of_the_example_report) {
  EXPECT_EQ(keep_reason_name(KeepReason::kForeign), "made outside the model");
  EXPECT_EQ(keep_reason_name(KeepReason::kNotAllowed), "operator is not recomputed in this mode");
  EXPECT_EQ(keep_reason_name(KeepReason::kCrossesSegments), "crosses blocks");
  EXPECT_EQ(keep_reason_name(KeepReason::kMustBeKept), "must be kept");
}

TEST(IrreplaceableBytes, are_of_what_is_kept_in_any_form_and_not_by_choice) {
  EXPECT_EQ(irreplaceable_bytes(plan_with(one_of_each())), 64 + 128 + 32 + 16 + 256);
}

/// Returns the plan after the pass that compares.
std::shared_ptr<const TreatmentPlan> plan_under(const char* name) {
  at::manual_seed(3);
  test::BlockNet net;
  const at::Tensor x = at::randn({2, 3, 16, 16});
  const std::unique_ptr<Mode> mode = make_mode(name);
  mode->attach(net.view());
  for (int step = 1; step <= 4; ++step) {
    mode->begin_step(step);
    at::Tensor loss;
    {
      const SavedTensorScope scope(*mode);
      loss = net.forward(x).square().mean();
    }
    loss.backward();
    mode->end_step();
    net.zero_grad();
  }
  return dynamic_cast<PlannedMode&>(*mode).plan();
}

int64_t held_by_choice(const TreatmentPlan& plan) {
  int64_t bytes = 0;
  for (const HeldGroup& group : held_groups(plan))
    bytes += is_choice(group.reason) ? group.bytes : 0;
  return bytes;
}

TEST(IrreplaceableBytes, of_a_real_plan_are_what_it_keeps_less_what_it_chose_to_keep) {
  for (const char* mode : {"echo", "echo+attn", "mirror", "mirror+echo"}) {
    const auto plan = plan_under(mode);
    ASSERT_NE(plan, nullptr) << mode;
    int64_t held = 0;
    for (const HeldGroup& group : held_groups(*plan)) held += group.bytes;
    const int64_t kept = held + summarize(*plan).encoded_from_bytes;
    EXPECT_GT(held_by_choice(*plan), 0) << mode << ": statistics of norms at least";
    EXPECT_EQ(irreplaceable_bytes(*plan), kept - held_by_choice(*plan)) << mode;
  }
}

TEST(IrreplaceableBytes, are_fewer_where_more_operators_may_be_run_again) {
  const int64_t echo = irreplaceable_bytes(*plan_under("echo"));
  const int64_t attention = irreplaceable_bytes(*plan_under("echo+attn"));
  const int64_t mirror = irreplaceable_bytes(*plan_under("mirror"));
  EXPECT_LT(attention, echo);
  EXPECT_LT(mirror, attention);
}

}  // namespace
}  // namespace noisemark::memopt
