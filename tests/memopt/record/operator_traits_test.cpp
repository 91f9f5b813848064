#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "memopt/record/operator_traits.h"
#include "memopt/treatment/recipe.h"
#include "tests/memopt/mode_run.h"
#include "tests/memopt/recording_sink.h"

/// Operators that cannot be called again as they were called, and are made again all the same:
/// dropout in one operator, which a GPU's models call, from the mask that it gave, and batch norm
/// without the running statistics that it moved.

namespace noisemark::memopt::test {
namespace {

struct Dropout {
  double p = 0.1;
  std::optional<bool> train = true;
};

/// One call, recorded.
class RecordedDropout {
 public:
  RecordedDropout(const at::Tensor& input, const Dropout& dropout) : input_(input.clone()) {
    ModelView view;
    view.parameters.emplace_back("input", input_.set_requires_grad(true));
    RecordingSink sink(view);
    at::Tensor loss;
    {
      const SavedTensorScope scope(sink);
      std::tie(result, mask) = at::native_dropout(input_, dropout.p, dropout.train);
      loss = result.square().sum();
    }
    loss.backward();
    graph = sink.take();
    result = result.detach();
    for (size_t op = 0; op < graph.operators.size(); ++op) {
      if (graph.operators[op].name == "aten::native_dropout") id = static_cast<OperatorId>(op);
    }
  }

  [[nodiscard]] bool is_repeatable() const {
    return graph.operators.at(static_cast<size_t>(id)).repeatable;
  }
  [[nodiscard]] at::Tensor made_again() const {
    const c10::NoGradGuard no_grad;
    return replay_recipe(graph, id).run({input_, mask}).front();
  }

  StepGraph graph;
  OperatorId id = kNone;
  at::Tensor result, mask;

 private:
  at::Tensor input_;
};

using test::expect_same_bits;

TEST(MaskedDropout, makes_the_bits_of_the_result_again_from_input_and_mask) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({2, 6, 4, 5});
  for (const at::Tensor& input : {x, x.to(at::kBFloat16), x.to(at::kHalf), x.to(at::kDouble),
                                  x.contiguous(at::MemoryFormat::ChannelsLast), x.mul(0).neg()}) {
    for (const Dropout& dropout : {Dropout{0.0}, Dropout{0.1}, Dropout{0.3}, Dropout{0.9},
                                   Dropout{0.1, std::nullopt}, Dropout{0.5, false}}) {
      const RecordedDropout recorded(input, dropout);
      ASSERT_TRUE(recorded.is_repeatable()) << dropout.p;
      expect_same_bits(recorded.made_again(), recorded.result);
    }
  }
}

TEST(MaskedDropout, is_no_draw_of_another_mask) {
  at::manual_seed(4);
  const RecordedDropout recorded(at::randn({64, 64}), {});
  expect_same_bits(recorded.made_again(), recorded.made_again());
  const Recipe recipe = replay_recipe(recorded.graph, recorded.id);
  EXPECT_EQ(recipe.inputs.size(), 2U);
  EXPECT_EQ(recipe.results.size(), 1U) << "the mask is not made again";
}

TEST(MaskedDropout, that_drops_everything_stays_what_cannot_be_repeated) {
  const RecordedDropout recorded(at::randn({8}), {1.0});
  EXPECT_FALSE(recorded.is_repeatable());
}

at::Tensor noisy_on_cpu(const at::Tensor& x) {
  return x + 0.1 * at::randn(x.sizes());
}

/// An operator that draws from the process's generator, and does not say so.
struct Noisy : torch::autograd::Function<Noisy> {
  static at::Tensor call(const at::Tensor& x) {
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow("noisemark_traits::noisy", "")
        .typed<decltype(noisy_on_cpu)>()
        .call(x);
  }
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0]};
  }
};

at::Tensor noisy_with_history(const at::Tensor& x) {
  return Noisy::apply(x);
}

TORCH_LIBRARY(noisemark_traits, library) {
  library.def("noisy(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(noisemark_traits, CPU, library) {
  library.impl("noisy", noisy_on_cpu);
}
TORCH_LIBRARY_IMPL(noisemark_traits, Autograd, library) {
  library.impl("noisy", noisy_with_history);
}

/// The pass that verifies would run it once more, and every later draw would be another.
TEST(OperatorsOfOtherLibraries, are_not_run_again_unless_they_say_that_they_do_nothing_else) {
  const auto gradients_under = [](const std::string& mode) {
    ModeRun run(mode, [] {
      TestModel model;
      std::vector<at::Tensor> weights;
      for (const char* name : {"0.weight", "1.weight"}) {
        weights.push_back(at::randn({32, 32}).mul_(0.2).set_requires_grad(true));
        model.view.parameters.emplace_back(name, weights.back());
      }
      model.loss = [weights, x = at::randn({16, 32})] {
        const at::Tensor h = Noisy::call(at::linear(x, weights[0]));
        return at::silu(at::linear(at::silu(h * 1.5), weights[1])).square().mean();
      };
      return model;
    });
    std::vector<at::Tensor> gradients;
    for (int64_t number = 1; number <= 8; ++number) {
      for (at::Tensor& gradient : run.step(number)) gradients.push_back(std::move(gradient));
    }
    return gradients;
  };
  const std::vector<at::Tensor> exact = gradients_under("none");
  for (const char* mode : {"mirror:sqrt", "echo"}) expect_equal(exact, gradients_under(mode));
}

/// Dropout between two layers: the second saves its result.
TestModel dropped_out_model() {
  TestModel model;
  std::vector<at::Tensor> weights;
  for (const char* name : {"a.weight", "b.weight"}) {
    weights.push_back(at::randn({32, 32}).set_requires_grad(true));
    model.view.parameters.emplace_back(name, weights.back());
  }
  const at::Tensor x = at::randn({16, 32});
  model.loss = [=, step = std::make_shared<uint64_t>(0)] {
    at::manual_seed(++*step);
    const at::Tensor h = at::silu(at::linear(x, weights[0]));
    return at::linear(std::get<0>(at::native_dropout(h, 0.1, true)), weights[1]).square().sum();
  };
  return model;
}

class MaskedDropoutUnder : public testing::TestWithParam<const char*> {};

TEST_P(MaskedDropoutUnder, has_the_gradients_of_none_and_holds_the_mask_for_the_result) {
  ModeRun none("none", dropped_out_model);
  ModeRun run(GetParam(), dropped_out_model);
  for (int64_t number = 1; number <= 6; ++number) {
    SCOPED_TRACE(number);
    expect_equal(none.step(number), run.step(number));
  }
  const PlannedModeReport report = run.report();
  EXPECT_EQ(report.missing_reason, "");
  EXPECT_EQ(report.kept_after_mismatch + report.counters.mismatches + report.counters.departures,
            0);
  const TreatmentPlan& plan = *dynamic_cast<const PlannedMode&>(run.mode()).plan();
  int dropouts = 0;
  for (size_t op = 0; op < plan.graph->operators.size(); ++op) {
    const auto dropout = masked_dropout_of(*plan.graph, static_cast<OperatorId>(op));
    if (!dropout) continue;
    ++dropouts;
    EXPECT_EQ(plan.values[static_cast<size_t>(dropout->result)].source, Source::kMadeAgain);
    const Source mask = plan.values[static_cast<size_t>(dropout->mask)].source;
    EXPECT_TRUE(mask == Source::kHeld || mask == Source::kEncoded);
  }
  EXPECT_EQ(dropouts, 1);
}

INSTANTIATE_TEST_SUITE_P(Modes, MaskedDropoutUnder,
                         testing::Values("echo", "echo+gist", "echo+attn"),
                         [](const auto& info) { return plain_name(info.param); });

struct NormalizedBatch {
  at::Tensor x, weight, bias;
  bool training = true;
};

/// One call of batch norm, recorded, and what calling it again gives.
void expect_made_again(const NormalizedBatch& batch) {
  const at::Tensor x = batch.x.clone().set_requires_grad(true);
  const at::Tensor mean = at::zeros({x.size(1)});
  const at::Tensor variance = at::ones({x.size(1)});
  ModelView view;
  view.parameters.emplace_back("x", x);
  view.buffers = {mean, variance};
  RecordingSink sink(view);
  at::Tensor result;
  {
    const SavedTensorScope scope(sink);
    result = at::batch_norm(x, batch.weight, batch.bias, mean, variance, batch.training, 0.1, 1e-5,
                            false);
    static_cast<void>(result.square());
  }
  const StepGraph graph = sink.take();
  const auto norm = std::find_if(graph.operators.begin(), graph.operators.end(),
                                 [](const auto& op) { return op.name.ends_with("batch_norm"); });
  ASSERT_NE(norm, graph.operators.end());
  ASSERT_TRUE(norm->repeatable);
  const Recipe recipe =
      replay_recipe(graph, static_cast<OperatorId>(norm - graph.operators.begin()));
  const at::Tensor moved_mean = mean.clone();
  const at::Tensor moved_variance = variance.clone();
  std::vector<at::Tensor> inputs = {x.detach()};
  for (const at::Tensor& given : {batch.weight, batch.bias}) {
    if (given.defined()) inputs.push_back(given);
  }
  if (!batch.training) inputs.insert(inputs.end(), {mean, variance});
  ASSERT_EQ(recipe.inputs.size(), inputs.size());
  const c10::NoGradGuard no_grad;
  expect_same_bits(recipe.run(inputs).front(), result.detach());
  EXPECT_TRUE(mean.equal(moved_mean));
  EXPECT_TRUE(variance.equal(moved_variance));
  EXPECT_EQ(mean.equal(at::zeros_like(mean)), !batch.training);
}

TEST(BatchNorm, is_made_again_bit_for_bit_without_moving_its_running_statistics) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({4, 6, 5, 7}) * 3 + 1;
  const at::Tensor weight = at::randn({6});
  const at::Tensor bias = at::randn({6});
  for (const at::Tensor& input :
       {x, x.contiguous(at::MemoryFormat::ChannelsLast), at::randn({9, 6}), x.to(at::kBFloat16)}) {
    for (const bool training : {true, false}) {
      expect_made_again({input, weight, bias, training});
      if (input.scalar_type() == at::kFloat) expect_made_again({input, {}, {}, training});
    }
  }
}

/// Convolution, batch norm and ReLU, twice, beside a shortcut.
TestModel residual_model() {
  TestModel model;
  const auto add = [&model](const char* name, const std::vector<int64_t>& shape) {
    const at::Tensor weight = at::randn(shape).mul_(0.3).set_requires_grad(true);
    model.view.parameters.emplace_back(name, weight);
    return weight;
  };
  const std::vector<at::Tensor> w = {
      add("conv1.weight", {8, 3, 3, 3}), add("norm1.weight", {8}), add("norm1.bias", {8}),
      add("conv2.weight", {8, 8, 3, 3}), add("norm2.weight", {8}), add("norm2.bias", {8}),
      add("head.weight", {8, 8, 1, 1})};
  for (int norm = 0; norm < 2; ++norm) {
    model.view.buffers.push_back(at::zeros({8}));
    model.view.buffers.push_back(at::ones({8}));
  }
  const std::vector<at::Tensor> b = model.view.buffers;
  const at::Tensor x = at::randn({4, 3, 12, 12});
  model.loss = [w, b, x] {
    const at::Tensor h = at::batch_norm(at::conv2d(x, w[0], {}, 1, 1), w[1], w[2], b[0], b[1], true,
                                        0.1, 1e-5, false)
                             .relu_();
    const at::Tensor g = at::batch_norm(at::conv2d(h, w[3], {}, 1, 1), w[4], w[5], b[2], b[3], true,
                                        0.1, 1e-5, false);
    return at::conv2d(at::relu(g + h), w[6]).square().mean();
  };
  return model;
}

class BatchNormUnder : public testing::TestWithParam<const char*> {};

TEST_P(BatchNormUnder, has_the_gradients_and_running_statistics_of_none_in_fewer_bytes) {
  ModeRun none("none", residual_model);
  ModeRun run(GetParam(), residual_model);
  for (int64_t number = 1; number <= 6; ++number) {
    SCOPED_TRACE(number);
    expect_equal(none.step(number), run.step(number));
    expect_equal(none.model().view.buffers, run.model().view.buffers);
  }
  const PlannedModeReport report = run.report();
  EXPECT_EQ(report.missing_reason, "");
  EXPECT_EQ(report.kept_after_mismatch + report.counters.mismatches + report.counters.departures,
            0);
  EXPECT_GE(report.plan.dropped_bytes * 3, report.plan.recorded_bytes);
}

INSTANTIATE_TEST_SUITE_P(Modes, BatchNormUnder, testing::Values("echo", "echo+gist", "mirror:sqrt"),
                         [](const auto& info) { return plain_name(info.param); });

}  // namespace
}  // namespace noisemark::memopt::test
