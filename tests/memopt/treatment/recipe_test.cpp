#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/plan/resolve.h"
#include "memopt/treatment/recipe.h"
#include "tests/memopt/recording_sink.h"

namespace noisemark::memopt {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;
using Two = std::tuple<at::Tensor, at::Tensor>;

// Operators of a library that memopt does not know: (x - mean) * by, and the mean, which is saved.

enum Centring { kCentred, kOfOtherSchema, kWithoutKernel, kWithoutSaving };
constexpr const char* kNames[] = {"centred", "centred_other", "centred_nowhere", "centred_unsaved"};

int runs_from_statistics = 0;

Two centred_kernel(const at::Tensor& x, double by) {
  const at::Tensor mean = x.mean();
  return {(x - mean) * by, mean};
}

at::Tensor from_statistics_kernel(const at::Tensor& x, double by, const at::Tensor& mean) {
  ++runs_from_statistics;
  return (x - mean) * by;
}

at::Tensor other_from_statistics_kernel(const at::Tensor& x, int64_t, const at::Tensor&) {
  return x;
}

template <Centring kind>
Two centred_autograd(const at::Tensor& x, double by);

template <Centring kind>
void define(torch::Library& library) {
  const std::string name = kNames[kind];
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  library.def((name + "(Tensor x, float by) -> (Tensor, Tensor)").c_str(), tags);
  library.impl(name.c_str(), torch::dispatch(c10::DispatchKey::CPU, centred_kernel));
  library.impl(name.c_str(),
               torch::dispatch(c10::DispatchKey::AutogradCPU, centred_autograd<kind>));
  const std::string again = name + "_from_statistics";
  const std::string by = kind == kOfOtherSchema ? "int by" : "float by";
  library.def((again + "(Tensor x, " + by + ", Tensor mean) -> Tensor").c_str());
  if (kind == kWithoutKernel) return;
  if (kind == kOfOtherSchema) {
    library.impl(again.c_str(),
                 torch::dispatch(c10::DispatchKey::CPU, other_from_statistics_kernel));
  } else {
    library.impl(again.c_str(), torch::dispatch(c10::DispatchKey::CPU, from_statistics_kernel));
  }
}

/// The operators exist as long as this does.
class Operators {
 public:
  Operators() : library_(torch::Library::DEF, "noisemark_test", std::nullopt, __FILE__, __LINE__) {
    define<kCentred>(library_);
    define<kOfOtherSchema>(library_);
    define<kWithoutKernel>(library_);
    define<kWithoutSaving>(library_);
  }

  static Two call(Centring kind, const at::Tensor& x, double by) {
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow((std::string("noisemark_test::") + kNames[kind]).c_str(), "")
        .typed<decltype(centred_kernel)>()
        .call(x, by);
  }

 private:
  torch::Library library_;
};

template <Centring kind>
struct Centred : torch::autograd::Function<Centred<kind>> {
  static variable_list forward(AutogradContext* ctx, const Variable& x, double by) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [y, mean] = Operators::call(kind, x, by);
    if (kind != kWithoutSaving) ctx->save_for_backward({mean});
    ctx->mark_non_differentiable({mean});
    ctx->saved_data["by"] = by;
    return {y, mean};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {grads[0] * ctx->saved_data["by"].toDouble(), {}};
  }
};

template <Centring kind>
Two centred_autograd(const at::Tensor& x, double by) {
  const variable_list results = Centred<kind>::apply(x, by);
  return {results[0], results[1]};
}

struct Recorded {
  StepGraph graph;
  at::Tensor x, y;

  /// The first result of the operator of that name.
  [[nodiscard]] ValueId result_of(const std::string& name) const {
    for (const RecordedOperator& op : graph.operators) {
      if (op.name == name) return op.results.front();
    }
    return kNone;
  }
};

Recorded record(const std::function<at::Tensor(const at::Tensor&)>& forward) {
  at::manual_seed(5);
  Recorded recorded;
  recorded.x = at::randn({2, 4, 3, 5}).set_requires_grad(true);
  ModelView view;
  view.parameters.emplace_back("x", recorded.x);
  test::RecordingSink sink(view);
  at::Tensor loss;
  {
    const SavedTensorScope scope(sink);
    recorded.y = forward(recorded.x);
    loss = recorded.y.square().sum();
  }
  loss.backward();
  recorded.graph = sink.take();
  return recorded;
}

std::optional<Recipe> recipe_for(Centring kind) {
  const Operators operators;
  const Recorded recorded =
      record([&](const at::Tensor& x) { return std::get<0>(Operators::call(kind, x, 0.7)); });
  const ValueId y = recorded.result_of(std::string("noisemark_test::") + kNames[kind]);
  EXPECT_NE(y, kNone);
  return from_statistics_recipe(recorded.graph, y);
}

TEST(FromStatistics, calls_the_operator_of_that_name_with_what_was_saved) {
  const Operators operators;
  const Recorded recorded =
      record([&](const at::Tensor& x) { return std::get<0>(Operators::call(kCentred, x, 0.7)); });
  const ValueId y = recorded.result_of("noisemark_test::centred");
  const std::optional<Recipe> recipe = from_statistics_recipe(recorded.graph, y);
  ASSERT_TRUE(recipe);
  EXPECT_EQ(recipe->name, "noisemark_test::centred_from_statistics");
  EXPECT_EQ(recipe->replaces, recorded.graph.values[static_cast<size_t>(y)].producer);
  EXPECT_TRUE(recipe->is_shortcut);
  EXPECT_EQ(recipe->results, std::vector{y});
  ASSERT_EQ(recipe->inputs.size(), 2U);
  EXPECT_EQ(recorded.graph.values[static_cast<size_t>(recipe->inputs[0])].model_name, "x");
  EXPECT_EQ(recorded.graph.values[static_cast<size_t>(recipe->inputs[1])].result_index, 1);

  const c10::NoGradGuard no_grad;
  runs_from_statistics = 0;
  const std::vector<at::Tensor> made = recipe->run({recorded.x, recorded.x.mean()});
  EXPECT_EQ(runs_from_statistics, 1);
  ASSERT_EQ(made.size(), 1U);
  EXPECT_TRUE(made.front().equal(recorded.y));
}

TEST(FromStatistics, is_what_a_recipe_book_has_for_such_an_operator) {
  const Operators operators;
  const Recorded recorded =
      record([&](const at::Tensor& x) { return std::get<0>(Operators::call(kCentred, x, 0.7)); });
  const ValueId y = recorded.result_of("noisemark_test::centred");
  RecipeBook book(std::make_shared<const StepGraph>(recorded.graph), {{y, 1234}});
  ASSERT_NE(book.shortcut(y), nullptr);
  EXPECT_EQ(book.shortcut(y)->name, "noisemark_test::centred_from_statistics");
  EXPECT_EQ(book.shortcut(y)->cost_ns, 1234) << "what it was measured to take";
}

TEST(FromStatistics, is_not_there_where_that_operator_takes_something_else) {
  EXPECT_FALSE(recipe_for(kOfOtherSchema));
}

TEST(FromStatistics, is_not_there_where_that_operator_has_no_kernel_for_the_device) {
  EXPECT_FALSE(recipe_for(kWithoutKernel));
}

TEST(FromStatistics, is_not_there_where_the_statistics_were_not_saved) {
  EXPECT_FALSE(recipe_for(kWithoutSaving));
}

TEST(FromStatistics, is_not_there_for_an_operator_without_such_a_companion) {
  const Recorded recorded = record([](const at::Tensor& x) { return at::group_norm(x, 2); });
  const ValueId y = recorded.result_of("aten::native_group_norm");
  ASSERT_NE(y, kNone);
  EXPECT_FALSE(from_statistics_recipe(recorded.graph, y));
}

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

  /// Makes the result again from its inputs, which are cut out of it.
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
