#include "memopt/record/recorder.h"

#include <ATen/Context.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/mse_loss.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "memopt/accounting/allocation_source.h"
#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "tests/memopt/nets.h"
#include "tests/memopt/plan/recorded_nets.h"
#include "tests/memopt/recording_sink.h"

namespace noisemark::memopt {
namespace {

using test::RecordingSink;

class Recorder : public testing::Test {
 protected:
  Recorder() {
    at::manual_seed(3);
    x_ = at::randn({2, 3, 8, 8});
  }

  StepGraph record(uint64_t seed = 1, AllocationSource* memory = nullptr) {
    at::manual_seed(seed);
    RecordingSink sink(net_.view(), memory);
    at::Tensor loss;
    {
      const SavedTensorScope scope(sink);
      loss = net_.forward(x_).square().mean();
    }
    loss.backward();
    net_.zero_grad();
    return sink.take();
  }

  static const RecordedOperator* find(const StepGraph& graph, const std::string& name) {
    const auto found = std::find_if(graph.operators.begin(), graph.operators.end(),
                                    [&](const RecordedOperator& op) { return op.name == name; });
    return found == graph.operators.end() ? nullptr : &*found;
  }

  test::BlockNet net_;
  at::Tensor x_;
};

TEST_F(Recorder, finds_the_producer_of_every_tensor_that_is_not_given_from_outside) {
  const StepGraph graph = record();
  int foreign = 0;
  for (const RecordedSlot& slot : graph.slots) {
    const RecordedValue& value = graph.values[static_cast<size_t>(slot.value)];
    foreign += value.origin == RecordedValue::Origin::kForeign ? 1 : 0;
    EXPECT_NE(slot.saved_by, kNone);
    EXPECT_NE(slot.unpack_order, kNone);
  }
  EXPECT_EQ(foreign, 1) << "the batch, which the first convolution saves";
}

TEST_F(Recorder, sees_each_operator_once_under_a_thread_state_from_within_an_earlier_record) {
  std::optional<at::ThreadLocalState> within;
  {
    RecordingSink sink(net_.view());
    const SavedTensorScope scope(sink);
    within.emplace();
  }
  const at::ThreadLocalStateGuard guard(*within);
  const StepGraph graph = record();
  for (const RecordedSlot& slot : graph.slots) EXPECT_NE(slot.saved_by, kNone);
}

TEST_F(Recorder, counts_a_storage_once_that_several_operators_save) {
  const StepGraph graph = record();
  int64_t naive = 0;
  for (const RecordedSlot& slot : graph.slots) {
    const RecordedValue& value = graph.values[static_cast<size_t>(slot.value)];
    const bool external = graph.storages[static_cast<size_t>(value.storage)].external;
    naive += external ? 0 : value.bytes();
  }
  EXPECT_LT(graph.saved_bytes(), naive);
  EXPECT_GT(graph.saved_bytes(), 0);
}

TEST_F(Recorder, knows_that_dropout_noise_cannot_be_drawn_again) {
  const StepGraph graph = record();
  const RecordedOperator* draw = find(graph, "aten::bernoulli_");
  ASSERT_NE(draw, nullptr);
  EXPECT_FALSE(draw->repeatable);
}

TEST_F(Recorder, knows_how_long_the_program_holds_what_operators_have_read_last) {
  const StepGraph graph = record();
  const RecordedOperator* stem = find(graph, "aten::convolution");
  const RecordedOperator* cat = find(graph, "aten::cat");
  ASSERT_TRUE(stem != nullptr && cat != nullptr);
  const RecordedValue& value = graph.values[static_cast<size_t>(stem->results.front())];
  const auto cat_id = static_cast<OperatorId>(cat - graph.operators.data());
  // Read last before the cat, but a variable of the net's forward function.
  EXPECT_LT(*std::max_element(value.readers.begin(), value.readers.end()), cat_id);
  EXPECT_GT(graph.storages[static_cast<size_t>(value.storage)].gone_at_operator, cat_id);
}

TEST_F(Recorder, knows_what_the_program_holds_beyond_the_forward_pass) {
  for (const bool held : {false, true}) {
    RecordingSink sink(net_.view());
    at::Tensor prediction, loss;
    {
      const SavedTensorScope scope(sink);
      prediction = net_.forward(x_);
      loss = prediction.square().mean();
      if (!held) prediction.reset();
    }
    loss.backward();
    const StepGraph graph = sink.take();
    const RecordedOperator* square = find(graph, "aten::pow");
    ASSERT_NE(square, nullptr);
    const ValueId id = square->arguments.front().values.front();
    const StorageId storage = graph.values[static_cast<size_t>(id)].storage;
    const bool gone = graph.storages[static_cast<size_t>(storage)].gone_at_operator != kNone;
    EXPECT_EQ(gone, !held);
  }
}

TEST_F(Recorder, takes_what_is_written_in_place_for_another_value_of_the_same_memory) {
  const StepGraph graph = record();
  const RecordedOperator* scaled = find(graph, "aten::div_");
  ASSERT_NE(scaled, nullptr);
  EXPECT_TRUE(scaled->repeatable);
  const ValueId before = scaled->arguments.front().values.front();
  const ValueId after = scaled->results.front();
  EXPECT_NE(before, after);
  EXPECT_EQ(graph.values[static_cast<size_t>(before)].storage,
            graph.values[static_cast<size_t>(after)].storage);
  EXPECT_TRUE(graph.values[static_cast<size_t>(before)].slots.empty());
  EXPECT_FALSE(graph.values[static_cast<size_t>(after)].slots.empty());
}

/// The storage of two halves of a linear layer's result, of which the first is written in place.
RecordedStorage written_half(bool reads_whole) {
  const at::Tensor weight = at::randn({8, 8}).set_requires_grad(true);
  const at::Tensor x = at::randn({4, 8});
  const auto graph = test::record({{{"weight", weight}}, {}, 1}, [&] {
    const at::Tensor h = at::linear(x, weight);
    auto halves = h.unsafe_chunk(2, 1);
    const at::Tensor sum = (halves[0].sigmoid_() * halves[1].tanh_()).sum();
    return reads_whole ? sum + h.detach().sum() : sum;
  });
  for (const RecordedOperator& op : graph->operators) {
    if (op.name != "aten::sigmoid_") continue;
    return graph->storages[static_cast<size_t>(graph->value(op.results.front()).storage)];
  }
  ADD_FAILURE();
  return {};
}

TEST_F(Recorder, takes_a_part_that_is_written_for_another_value_where_nobody_reads_the_whole) {
  const RecordedStorage storage = written_half(/*reads_whole=*/false);
  EXPECT_FALSE(storage.written_in_place);
  EXPECT_TRUE(storage.written_in_parts);  // the first half was saved before the second was written
}

TEST_F(Recorder, takes_all_of_a_memory_for_written_where_the_whole_is_read_after_a_part_was) {
  EXPECT_TRUE(written_half(/*reads_whole=*/true).written_in_place);
}

TEST_F(Recorder, gives_operators_the_segment_of_their_parameters_and_passes_it_on) {
  const StepGraph graph = record();
  const RecordedOperator* attention = nullptr;
  for (const RecordedOperator& op : graph.operators) {
    if (op.name.starts_with("aten::_scaled_dot_product")) attention = &op;
  }
  ASSERT_NE(attention, nullptr);
  ASSERT_NE(attention->segment, kNone);
  EXPECT_EQ(graph.segments[static_cast<size_t>(attention->segment)], "attention");
  EXPECT_EQ(graph.segments.front(), "stem");
}

TEST_F(Recorder, finds_two_passes_of_the_same_model_to_agree) {
  StepGraph first = record(1);
  const StepGraph second = record(2);
  int unrepeatable = -1;
  EXPECT_TRUE(reconcile(first, second, unrepeatable));
  EXPECT_EQ(unrepeatable, 0);
}

TEST_F(Recorder, finds_an_argument_that_changed_between_two_passes) {
  StepGraph first = record(1);
  StepGraph second = record(2);
  const auto scaled =
      std::find_if(second.operators.begin(), second.operators.end(),
                   [](const RecordedOperator& op) { return op.name == "aten::native_group_norm"; });
  ASSERT_NE(scaled, second.operators.end());
  scaled->arguments.back().constant = 0.5;  // another epsilon
  int unrepeatable = -1;
  EXPECT_TRUE(reconcile(first, second, unrepeatable));
  EXPECT_EQ(unrepeatable, 1);
  EXPECT_FALSE(find(first, "aten::native_group_norm")->repeatable);
}

TEST_F(Recorder, finds_two_control_flows_to_differ) {
  StepGraph first = record();
  net_.dropout = 0;
  const StepGraph second = record();
  int unrepeatable = -1;
  EXPECT_FALSE(reconcile(first, second, unrepeatable));
}

TEST_F(Recorder, changes_no_gradient) {
  at::manual_seed(9);
  net_.forward(x_).square().mean().backward();
  const std::vector<at::Tensor> expected = net_.gradients();
  net_.zero_grad();
  at::manual_seed(9);
  RecordingSink sink(net_.view());
  at::Tensor loss;
  {
    const SavedTensorScope scope(sink);
    loss = net_.forward(x_).square().mean();
  }
  loss.backward();
  const std::vector<at::Tensor> recorded = net_.gradients();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(recorded[i].equal(expected[i])) << i;
}

TEST_F(Recorder, reads_the_memory_at_every_event_where_it_is_told_to) {
  const StepGraph graph = record(1, &cpu_allocation_source());
  const int64_t now = cpu_allocation_source().live_bytes();
  for (const RecordedSlot& slot : graph.slots) {
    EXPECT_GT(slot.at_save.live_bytes, 0);
    EXPECT_GE(slot.at_save.high_bytes, slot.at_save.live_bytes);
    if (slot.unpack_order == kNone) continue;
    EXPECT_GE(slot.at_unpack.high_bytes, slot.at_unpack.live_bytes);
  }
  // The last slot finds all that was saved before it.
  EXPECT_GT(graph.slots.back().at_save.live_bytes, now + graph.saved_bytes() / 2);
  EXPECT_GE(graph.at_end.high_bytes, graph.at_end.live_bytes);
  EXPECT_EQ(record().slots.back().at_save.live_bytes, kNone);
}

TEST_F(Recorder, gives_every_operator_a_time_within_that_of_the_pass) {
  const auto begin = std::chrono::steady_clock::now();
  const StepGraph graph = record();
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(graph.operators.empty());
  for (const RecordedOperator& op : graph.operators) {
    EXPECT_GT(op.cost_ns, 0) << op.name;
    EXPECT_LT(op.cost_ns, took.count()) << op.name;
  }
}

TEST_F(Recorder, misses_no_byte_while_somebody_else_asks_for_the_highest_level_too) {
  HighMark witness(cpu_allocation_source());
  std::atomic<bool> asked{false};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    HighMark busy(cpu_allocation_source());
    while (!stop) {
      static_cast<void>(busy.take());
      asked = true;
    }
  });
  while (!asked) std::this_thread::yield();
  const StepGraph graph = record(1, &cpu_allocation_source());
  stop = true;
  other.join();
  int64_t highest = graph.at_end.high_bytes;
  for (const RecordedSlot& slot : graph.slots) {
    highest = std::max({highest, slot.at_save.high_bytes, slot.at_unpack.high_bytes});
  }
  EXPECT_EQ(highest, witness.take());
}

TEST_F(Recorder, hands_the_measurements_of_a_warm_pass_on) {
  StepGraph cold = record();
  StepGraph warm = record(1, &cpu_allocation_source());
  cold.operators.front().cost_ns = 1;
  warm.operators.back().cost_ns = 2;
  take_measurements(cold, warm);
  EXPECT_EQ(cold.slots.back().at_unpack.live_bytes, warm.slots.back().at_unpack.live_bytes);
  EXPECT_EQ(cold.at_end.live_bytes, warm.at_end.live_bytes);
  EXPECT_EQ(cold.operators.front().cost_ns, 1);
  EXPECT_EQ(cold.operators.back().cost_ns, 2);
}

}  // namespace
}  // namespace noisemark::memopt
