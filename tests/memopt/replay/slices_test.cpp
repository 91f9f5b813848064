#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "memopt/plan/resolve.h"
#include "memopt/replay/recipe.h"
#include "memopt/saved_tensor_scope.h"
#include "tests/memopt/recording_sink.h"

namespace noisemark::memopt {
namespace {

using test::RecordingSink;

at::Tensor channels_last(const at::Tensor& x) {
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}

/// An operator of tensors that are the model's, and its result.
struct RecordedCall {
  RecordedCall(const std::vector<at::Tensor>& tensors, const std::function<at::Tensor()>& call,
               const std::string& operator_name) {
    ModelView view;
    for (const at::Tensor& tensor : tensors) {
      at::Tensor leaf = tensor;
      const std::string name = std::to_string(view.parameters.size());
      view.parameters.emplace_back(name, leaf.set_requires_grad(true));
    }
    RecordingSink sink(view);
    at::Tensor loss;
    {
      const SavedTensorScope scope(sink);
      result = call();
      loss = result.square().sum();
    }
    loss.backward();
    graph = sink.take();
    for (size_t op = 0; op < graph.operators.size(); ++op) {
      if (graph.operators[op].name == operator_name) id = static_cast<OperatorId>(op);
    }
    result = result.detach();
  }

  /// From its inputs cut out of its result.
  [[nodiscard]] at::Tensor made_again() const {
    const Recipe recipe = replay_recipe(graph, id);
    std::vector<at::Tensor> inputs;
    for (const ValueId input : recipe.inputs) {
      const auto slice = slice_of_input(graph, recipe.results.front(), input);
      if (!slice.has_value()) return {};
      inputs.push_back(slice->take(result));
    }
    const c10::NoGradGuard no_grad;
    return recipe.run(inputs).front();
  }

  StepGraph graph;
  OperatorId id = kNone;
  at::Tensor result;
};

void expect_same(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_TRUE(a.defined());
  EXPECT_EQ(a.strides(), b.strides());
  EXPECT_TRUE(a.equal(b));
}

TEST(Slices, make_a_concatenation_again_whatever_the_order_of_its_parts_in_memory) {
  at::manual_seed(2);
  const at::Tensor a = at::randn({2, 6, 4, 5});
  const at::Tensor b = at::randn({2, 3, 4, 5});
  for (const auto& [x, y] :
       {std::pair(a, b), std::pair(channels_last(a), b), std::pair(a, channels_last(b)),
        std::pair(channels_last(a), channels_last(b))}) {
    const RecordedCall cat(
        {x, y},
        [&, p = x, q = y] {
          return at::cat({p, q}, 1);
        },
        "aten::cat");
    expect_same(cat.made_again(), cat.result);
  }
}

TEST(Slices, lie_in_memory_in_the_order_of_the_whole) {
  const at::Tensor a = channels_last(at::randn({2, 6, 4, 5}));
  const at::Tensor b = at::randn({2, 3, 4, 5});
  const RecordedCall cat(
      {a, b},
      [&] {
        return at::cat({a, b}, 1);
      },
      "aten::cat");
  const RecordedOperator& op = cat.graph.operators[static_cast<size_t>(cat.id)];
  const auto slice = slice_of_input(cat.graph, op.results.front(), op.arguments[0].values[0]);
  ASSERT_TRUE(slice.has_value());
  const at::Tensor part = slice->take(cat.result);
  EXPECT_TRUE(part.is_contiguous());
  EXPECT_TRUE(part.equal(a));
  EXPECT_EQ(part.storage().nbytes(), part.nbytes());
}

TEST(Slices, make_upsamplings_and_paddings_again_in_both_orders) {
  at::manual_seed(2);
  const at::Tensor a = at::randn({2, 6, 4, 5});
  for (const at::Tensor& x : {a, channels_last(a)}) {
    const RecordedCall upsampling(
        {x},
        [&] {
          return at::upsample_nearest2d(x, std::vector<int64_t>{8, 15});
        },
        "aten::upsample_nearest2d");
    expect_same(upsampling.made_again(), upsampling.result);
    const RecordedCall padding(
        {x},
        [&] {
          return at::constant_pad_nd(x, {1, 2, 0, 1});
        },
        "aten::constant_pad_nd");
    expect_same(padding.made_again(), padding.result);
  }
}

/// A concatenation of two results that are not made again; of the first something else saves all
/// where `first_is_saved`.
TreatmentPlan plan_of_concatenation(bool first_is_saved) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({4, 8});
  ModelView view;
  for (const char* name : {"a.weight", "b.weight"}) {
    view.parameters.emplace_back(name, at::randn({8, 8}).set_requires_grad(true));
  }
  RecordingSink sink(view);
  at::Tensor loss;
  {
    const SavedTensorScope scope(sink);
    const at::Tensor a = at::mm(x, view.parameters[0].second);
    const at::Tensor b = at::mm(x, view.parameters[1].second);
    const at::Tensor also = first_is_saved ? at::silu(a) : a;  // addition saves nothing
    loss = (at::silu(at::cat({a, b}, 1)).narrow(1, 0, 8) + also).sum();
  }
  loss.backward();
  Policy policy;
  policy.may_replay = [](const StepGraph&, const RecordedOperator& op) {
    return op.name == "aten::cat" || op.name == "aten::silu";
  };
  return resolve(std::make_shared<const StepGraph>(sink.take()), policy);
}

Source source_of_concatenation(const TreatmentPlan& plan) {
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const RecordedOperator* producer = plan.graph->producer_of(static_cast<ValueId>(v));
    if (producer != nullptr && producer->name == "aten::cat") return plan.values[v].source;
  }
  return Source::kUnavailable;
}

/// Zheng et al. 2020: a value is made again only where more bytes are released than newly held.
TEST(Slices, are_held_only_where_that_releases_more_bytes) {
  const TreatmentPlan both_halves = plan_of_concatenation(/*first_is_saved=*/false);
  EXPECT_EQ(source_of_concatenation(both_halves), Source::kHeld)
      << "two halves are as many bytes as the whole";
  EXPECT_EQ(summarize(both_halves).recipes, 0);
  const TreatmentPlan one_half = plan_of_concatenation(/*first_is_saved=*/true);
  EXPECT_EQ(source_of_concatenation(one_half), Source::kMadeAgain);
  EXPECT_EQ(std::count_if(one_half.values.begin(), one_half.values.end(),
                          [](const auto& value) { return value.source == Source::kSliced; }),
            1);
}

}  // namespace
}  // namespace noisemark::memopt
