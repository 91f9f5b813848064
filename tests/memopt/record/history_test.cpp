#include <ATen/TensorOperators.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/_nested_tensor_from_tensor_list.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

#include "memopt/record/history.h"

namespace noisemark::memopt {
namespace {

const CallParts kNotSeen;

CallParts call(const CallWatch& watch, const at::Tensor& made) {
  return watch.call_of(made.grad_fn()->sequence_nr());
}

struct Twice : public torch::autograd::Function<Twice> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients.front() * 2};
  }
};

class CallWatches : public testing::Test {
 protected:
  at::Tensor h_ = at::randn({4, 4}).set_requires_grad(true);
  StepGraph graph_;
};

TEST_F(CallWatches, tell_calls_apart_of_which_autograd_keeps_nothing) {
  const CallWatch watch(graph_);
  const CallParts two = call(watch, h_ + 2);
  EXPECT_NE(two, kNotSeen);
  EXPECT_EQ(call(watch, h_ + 2), two);
  EXPECT_NE(call(watch, h_ + 3), two);
  EXPECT_NE(call(watch, h_ * 2), two);
  const CallParts norm = call(watch, at::layer_norm(h_, {4}, {}, {}, 1e-5));
  EXPECT_EQ(call(watch, at::layer_norm(h_, {4}, {}, {}, 1e-5)), norm);
  EXPECT_NE(call(watch, at::layer_norm(h_, {4}, {}, {}, 1e-6)), norm);
}

TEST_F(CallWatches, know_the_models_buffers_by_their_memory_and_all_else_by_its_shape) {
  const at::Tensor buffers = at::randn({2, 4});
  RecordedValue value;
  value.origin = RecordedValue::Origin::kModel;
  value.model_tensor = buffers;
  graph_.values.push_back(value);
  const CallWatch watch(graph_);
  EXPECT_EQ(call(watch, h_ + buffers[0]), call(watch, h_ + buffers[0]));
  EXPECT_NE(call(watch, h_ + buffers[0]), call(watch, h_ + buffers[1]));
  const CallParts foreign = call(watch, h_ + at::randn({4}));
  EXPECT_EQ(call(watch, h_ + at::randn({4})), foreign) << "each batch is another tensor";
  EXPECT_NE(call(watch, h_ + at::randn({1, 4})), foreign);
}

TEST_F(CallWatches, see_that_the_memory_of_an_input_was_written) {
  const CallWatch watch(graph_);
  const at::Tensor made = h_ * 2;
  const CallParts before = call(watch, made + 1);
  {
    const c10::NoGradGuard no_grad;
    made.mul_(3);
  }
  EXPECT_NE(call(watch, made + 1), before);
}

TEST_F(CallWatches, give_the_call_of_the_operator_that_made_the_node) {
  const CallWatch watch(graph_);
  const at::Tensor weight = at::randn({4, 4}).set_requires_grad(true);
  // linear() is composed of others, and the product below it makes no node.
  const CallParts linear = call(watch, at::linear(h_, weight));
  EXPECT_NE(linear, kNotSeen);
  static_cast<void>(at::randn({4, 4}) * 5);
  EXPECT_EQ(call(watch, at::linear(h_, weight)), linear);
}

TEST_F(CallWatches, say_nothing_of_a_function_of_the_programs_own) {
  const CallWatch watch(graph_);
  static_cast<void>(at::randn({4, 4}) * 5);
  EXPECT_EQ(call(watch, Twice::apply(h_)), kNotSeen) << "that was called with nothing of this";
  EXPECT_NE(call(watch, h_ * 2), kNotSeen);
}

TEST_F(CallWatches, of_an_outer_pass_see_the_calls_of_an_inner_one_too) {
  CallWatch outer(graph_);
  const at::Tensor before = h_ + 2;
  {
    CallWatch inner(graph_);
    const at::Tensor inside = h_ + 2;
    EXPECT_EQ(call(inner, before), kNotSeen);
    EXPECT_EQ(call(inner, inside), call(outer, before));
    EXPECT_EQ(call(outer, inside), call(outer, before));
  }
  const at::Tensor after = h_ + 2;
  EXPECT_EQ(call(outer, after), call(outer, before));
}

TEST_F(CallWatches, that_have_stopped_see_nothing_more_and_know_what_they_saw) {
  CallWatch first(graph_);
  const at::Tensor before = h_ + 2;
  CallWatch second(graph_);
  first.stop();  // it is not the innermost
  const at::Tensor between = h_ + 2;
  EXPECT_NE(call(first, before), kNotSeen);
  EXPECT_EQ(call(first, between), kNotSeen);
  EXPECT_NE(call(second, between), kNotSeen);
  second.stop();
  EXPECT_EQ(call(second, h_ + 2), kNotSeen);
}

TEST_F(CallWatches, that_begin_under_a_thread_state_from_before_an_outer_one_see_calls) {
  const at::ThreadLocalState before;
  CallWatch outer(graph_);
  const at::Tensor outside = h_ + 2;
  const at::ThreadLocalStateGuard guard(before);
  CallWatch inner(graph_);
  EXPECT_EQ(call(inner, h_ + 2), call(outer, outside));
}

TEST_F(CallWatches, know_calls_that_read_a_nested_tensor) {
  const CallWatch watch(graph_);
  const at::Tensor rows = at::_nested_tensor_from_tensor_list(at::randn({4, 4}).unbind());
  EXPECT_NE(call(watch, at::_nested_tensor_from_tensor_list(h_.unbind()) * rows), kNotSeen);
}

/// One write, as a watch of its own knows it.
CallParts one_write(const StepGraph& graph) {
  const CallWatch watch(graph);
  const c10::NoGradGuard no_grad;
  const at::Tensor written = at::zeros({4}).mul_(3);
  return watch.writes_to(written);
}

TEST_F(CallWatches, see_each_call_once_under_a_thread_state_from_within_another_one) {
  const CallParts once = one_write(graph_);
  CallWatch earlier(graph_);
  const at::ThreadLocalState within;
  earlier.stop();
  const at::ThreadLocalStateGuard guard(within);
  EXPECT_EQ(one_write(graph_), once);
}

TEST_F(CallWatches, see_each_call_once_after_another_one_stopped_under_a_thread_state_from_before) {
  const CallParts once = one_write(graph_);
  const at::ThreadLocalState before;
  CallWatch earlier(graph_);
  {
    const at::ThreadLocalStateGuard guard(before);
    earlier.stop();
  }
  EXPECT_EQ(one_write(graph_), once);
}

at::Tensor parameter_of(StepGraph& graph, at::Tensor tensor) {
  RecordedValue value;
  value.origin = RecordedValue::Origin::kModel;
  value.model_tensor = tensor.set_requires_grad(true);
  graph.values.push_back(value);
  return value.model_tensor;
}

/// The history of `parameter` times 2, as the node of the product has it.
ValueId leaf_of(HistoryReader& reader, const at::Tensor& parameter) {
  const at::Tensor product = parameter * 2;
  const RecordedEdge edge = reader.read(product);
  return reader.nodes().at(static_cast<size_t>(edge.node)).inputs.at(0).leaf;
}

TEST(TensorHistory, ends_in_the_parameters_that_were_read) {
  StepGraph graph;
  const at::Tensor both = at::zeros({2, 4});
  const at::Tensor a = parameter_of(graph, both[0].detach());
  const at::Tensor b = parameter_of(graph, both[1].detach());
  HistoryReader reader(graph);
  EXPECT_EQ(leaf_of(reader, a), 0);
  EXPECT_EQ(leaf_of(reader, b), 1) << "of the same storage";
  EXPECT_EQ(leaf_of(reader, at::zeros({4}).set_requires_grad(true)), kNone);
}

// They have the data pointer of none.
TEST(TensorHistory, tells_parameters_without_elements_apart) {
  StepGraph graph;
  const at::Tensor a = parameter_of(graph, at::zeros({0, 4}));
  const at::Tensor b = parameter_of(graph, at::zeros({0, 4}));
  ASSERT_EQ(a.const_data_ptr(), b.const_data_ptr());
  HistoryReader reader(graph);
  EXPECT_EQ(leaf_of(reader, a), 0);
  EXPECT_EQ(leaf_of(reader, b), 1);
  EXPECT_EQ(leaf_of(reader, at::zeros({0, 4}).set_requires_grad(true)), kNone);
}

}  // namespace
}  // namespace noisemark::memopt
