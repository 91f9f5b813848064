#include "memopt/record/history.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace noisemark::memopt {
namespace {

at::Tensor parameter_of(StepGraph& graph, at::Tensor tensor) {
  RecordedValue value;
  value.origin = RecordedValue::Origin::kModel;
  value.model_tensor = tensor.set_requires_grad(true);
  graph.values.push_back(value);
  return value.model_tensor;
}

/// Of `parameter` times 2, as the node of the product has it.
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
