#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/treatment/norm_chain.h"
#include "memopt/treatment/recipe.h"
#include "tests/gpu.h"
#include "tests/memopt/recording_sink.h"

// A value that `echo` makes again on a GPU must be what ATen made, bit for bit.
namespace noisemark::memopt {
namespace {

using treatment::Activation;
using treatment::NormForm;
using treatment::NormGroup;

struct Shape {
  int64_t channels, groups, rows, columns;
};

/// Shapes of the networks, and some at which packs are not whole.
const std::vector<Shape> kShapes = {{128, 32, 32, 32}, {256, 32, 16, 16}, {384, 32, 16, 16},
                                    {512, 32, 4, 4},   {128, 32, 1, 1},   {32, 8, 16, 16},
                                    {15, 5, 9, 3},     {40, 1, 6, 6}};

/// ATen's own result of norm, activation and product, and ours from its statistics.
struct Results {
  at::Tensor expected, own;
};

Results both(const Shape& s, NormForm form, Activation activation) {
  at::manual_seed(3);
  const at::Tensor x = (at::randn({3, s.channels, s.rows, s.columns}) * 3 + 0.7).to(kGpu);
  const at::Tensor weight = at::randn({s.channels}).to(kGpu);
  const at::Tensor bias = at::randn({s.channels}).to(kGpu);
  const at::Tensor mask = (at::randn(x.sizes()) > -1).to(at::kFloat).div(0.9).to(kGpu);
  const int64_t pixels = s.rows * s.columns;
  const auto [y, mean, rstd] =
      at::native_group_norm(x, weight, bias, 3, s.channels, pixels, s.groups, 1e-6);
  at::Tensor expected = y;
  if (activation == Activation::kSilu) expected = at::silu(y);
  if (activation == Activation::kRelu) expected = at::relu(y);
  const at::Tensor own = at::empty_like(x);
  const at::Tensor tables = at::empty({2 * 3 * s.channels}, x.options());
  treatment::NormChain job;
  job.samples = 3;
  job.channels = s.channels;
  job.groups = s.groups;
  job.pixels = pixels;
  job.form = form;
  job.activation = activation;
  job.x = x.const_data_ptr<float>();
  job.mean = mean.const_data_ptr<float>();
  job.rstd = rstd.const_data_ptr<float>();
  job.weight = weight.const_data_ptr<float>();
  job.bias = bias.const_data_ptr<float>();
  job.factor = mask.const_data_ptr<float>();
  job.scale = tables.mutable_data_ptr<float>();
  job.shift = job.scale + 3 * s.channels;
  job.y = own.mutable_data_ptr<float>();
  find_norm_chain(at::kCUDA)(job);
  return {expected * mask, own};
}

TEST(GpuNormChain, has_the_bits_of_atens_operators_at_every_shape) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(std::to_string(s.channels) + " channels in " + std::to_string(s.groups) + ", " +
                 std::to_string(s.rows) + " x " + std::to_string(s.columns));
    const NormGroup group{s.channels / s.groups, s.rows, s.columns, false, true, true};
    const std::optional<NormForm> form = treatment::exact_norm_form(group, at::kCUDA);
    // For one pixel to a channel ATen has a kernel of another formula, which no form must fit.
    if (!form && s.rows * s.columns == 1) continue;
    ASSERT_TRUE(form) << "no arithmetic was found that gives ATen's bits";
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSilu}) {
      ASSERT_TRUE(treatment::is_exact(activation, at::kCUDA)) << static_cast<int>(activation);
      const Results results = both(s, *form, activation);
      EXPECT_TRUE(at::equal(results.own, results.expected))
          << (results.own - results.expected).abs().max().item<float>();
    }
  }
}

at::Tensor parameter(at::IntArrayRef sizes, ModelView& view, const char* name) {
  const at::Tensor tensor = at::randn(sizes).to(kGpu).set_requires_grad(true);
  view.parameters.emplace_back(name, tensor);
  return tensor;
}

TEST(GpuNormChain, leaves_one_pixel_to_a_channel_to_atens_operator_where_no_form_fits) {
  ModelView view;
  const at::Tensor x = parameter({3, 128, 1, 1}, view, "x");
  const at::Tensor weight = parameter({128}, view, "weight");
  const at::Tensor bias = parameter({128}, view, "bias");
  test::RecordingSink sink(view);
  at::Tensor y;
  at::Tensor loss;
  {
    const SavedTensorScope scope(sink);
    y = at::group_norm(x, 32, weight, bias);
    loss = y.square().sum();
  }
  loss.backward();
  const StepGraph graph = sink.take();
  const auto norm =
      std::find_if(graph.operators.begin(), graph.operators.end(),
                   [](const auto& op) { return op.name == "aten::native_group_norm"; });
  ASSERT_NE(norm, graph.operators.end());
  const auto form = treatment::exact_norm_form({4, 1, 1, false, true, true}, at::kCUDA);
  EXPECT_EQ(norm_chain_recipe(graph, norm->results.front()).has_value(), form.has_value());
  const auto id = static_cast<OperatorId>(norm - graph.operators.begin());
  const Recipe again = replay_recipe(graph, id);
  std::vector<at::Tensor> inputs;
  for (const ValueId input : again.inputs) {
    inputs.push_back(graph.values[static_cast<size_t>(input)].model_tensor);
    ASSERT_TRUE(inputs.back().defined()) << "the norm reads nothing but the model's";
  }
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(again.run(inputs).front(), y));
}

/// The value that the recipe gives for the last value of operator `name`, from what the pass itself
/// had.
at::Tensor made_again(const StepGraph& graph, const std::string& name,
                      const std::function<at::Tensor(const StepGraph&, ValueId)>& tensor) {
  ValueId last = kNone;
  for (const RecordedOperator& op : graph.operators) {
    if (op.name == name) last = op.results.front();
  }
  const std::optional<Recipe> recipe = norm_chain_recipe(graph, last);
  if (!recipe) return {};
  std::vector<at::Tensor> inputs;
  for (const ValueId id : recipe->inputs) inputs.push_back(tensor(graph, id));
  const at::NoGradGuard no_grad;
  return recipe->run(inputs).front();
}

TEST(GpuNormChain,
     is_offered_for_what_is_rounded_and_for_channels_last_which_at_group_norm_copies) {
  for (const auto order : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const auto type : {at::kBFloat16, at::kHalf}) {
      at::manual_seed(4);
      ModelView view;
      at::Tensor x = at::randn({3, 128, 16, 16}).to(kGpu).contiguous(order).set_requires_grad(true);
      view.parameters.emplace_back("x", x);
      const at::Tensor weight = parameter({128}, view, "weight");
      const at::Tensor bias = parameter({128}, view, "bias");
      test::RecordingSink sink(view);
      at::Tensor y, loss;
      {
        const SavedTensorScope scope(sink);
        y = at::silu(at::group_norm(x, 32, weight, bias)).to(type);
        loss = y.square().sum();
      }
      loss.backward();
      const at::Tensor planes = x.detach().contiguous();
      const auto [norm, mean, rstd] =
          at::native_group_norm(planes, weight.detach(), bias.detach(), 3, 128, 256, 32, 1e-5);
      const StepGraph graph = sink.take();
      const at::Tensor again =
          made_again(graph, "aten::_to_copy", [&](const StepGraph& all, ValueId id) {
            const RecordedValue& value = all.values[static_cast<size_t>(id)];
            if (value.model_tensor.defined()) return value.model_tensor;
            if (all.producer_of(id)->name != "aten::native_group_norm") return planes;
            return value.result_index == 1 ? mean : rstd;
          });
      ASSERT_TRUE(again.defined());
      EXPECT_EQ(again.scalar_type(), type);
      EXPECT_TRUE(at::equal(again, y));
    }
  }
}

TEST(GpuNormChain, is_not_offered_for_channels_last_where_aten_copies_into_planes) {
  EXPECT_FALSE(treatment::exact_norm_form({4, 8, 8, true, true, true}, at::kCUDA));
}

}  // namespace
}  // namespace noisemark::memopt
