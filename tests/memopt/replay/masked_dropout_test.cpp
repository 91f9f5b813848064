/// Dropout in one operator, which a GPU's models call: it draws, and its result is made again all
/// the same, from the mask that it gave.

#include "memopt/record/masked_dropout.h"

#include <ATen/Context.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "memopt/replay/recipe.h"
#include "tests/memopt/mode_run.h"
#include "tests/memopt/recording_sink.h"

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

void expect_same_bits(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.strides(), b.strides());
  ASSERT_EQ(a.scalar_type(), b.scalar_type());
  ASSERT_TRUE(a.is_non_overlapping_and_dense());
  EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()), 0);
}

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

}  // namespace
}  // namespace noisemark::memopt::test
