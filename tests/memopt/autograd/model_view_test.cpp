#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "memopt/autograd/model_view.h"
#include "tests/memopt/mode_run.h"
#include "tests/memopt/recording_sink.h"

namespace noisemark::memopt {
namespace {

/// Four layers whose parameters all belong to one module: by their names they are one block. In
/// scopes they are two.
test::TestModel four_layers(bool scoped) {
  test::TestModel model;
  std::vector<at::Tensor> weights;
  for (int i = 0; i < 4; ++i) {
    weights.push_back(at::randn({64, 64}).mul_(0.1).set_requires_grad(true));
    model.view.parameters.emplace_back("layers." + std::to_string(i), weights.back());
  }
  const at::Tensor x = at::randn({128, 64});
  model.loss = [weights, x, scoped] {
    at::Tensor h = x;
    for (size_t pair = 0; pair < 2; ++pair) {
      std::optional<SegmentScope> scope;
      if (scoped) scope.emplace("pair." + std::to_string(pair));
      h = at::silu(at::linear(h, weights[2 * pair]));
      h = at::silu(at::linear(h, weights[2 * pair + 1]));
    }
    return h.square().mean();
  };
  return model;
}

test::TestModel scoped_layers() {
  return four_layers(true);
}

/// Returns the plan of the mode once it follows it.
std::shared_ptr<const TreatmentPlan> mirrored(bool scoped) {
  test::ModeRun run("mirror", [scoped] { return four_layers(scoped); });
  for (int64_t number = 1; number <= 4; ++number) static_cast<void>(run.step(number));
  EXPECT_EQ(run.report().missing_reason, "");
  return dynamic_cast<const PlannedMode&>(run.mode()).plan();
}

/// The operators whose results are kept because another block reads them.
std::vector<std::string> crossing(const TreatmentPlan& plan) {
  std::vector<std::string> made_by;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    if (plan.values[v].reason != KeepReason::kCrossesSegments) continue;
    made_by.push_back(plan.graph->producer_of(static_cast<ValueId>(v))->name);
  }
  return made_by;
}

TEST(SegmentScopes, are_the_blocks_of_a_model_whose_names_tell_none) {
  EXPECT_EQ(mirrored(false)->graph->segments, std::vector<std::string>{"layers"});
  EXPECT_EQ(mirrored(true)->graph->segments, (std::vector<std::string>{"pair.0", "pair.1"}));
}

// If names tell the blocks, an activation belongs to its reader; a scope is taken at its word.
TEST(SegmentScopes, end_where_they_end_and_mirror_keeps_what_crosses_there) {
  EXPECT_EQ(crossing(*mirrored(false)), std::vector<std::string>{});
  EXPECT_EQ(crossing(*mirrored(true)), std::vector<std::string>{"aten::silu"});
}

TEST(SegmentScopes, change_no_bit_of_a_gradient) {
  test::ModeRun none("none", scoped_layers);
  test::ModeRun mirror("mirror", scoped_layers);
  for (int64_t number = 1; number <= 6; ++number) {
    test::expect_equal(none.step(number), mirror.step(number));
  }
  EXPECT_GT(mirror.report().counters.recipes_run, 0);
  EXPECT_EQ(mirror.report().counters.departures, 0);
}

TEST(SegmentScopes, are_what_a_budget_decides_about) {
  test::ModeRun run("budget:saved=1GiB", scoped_layers);
  for (int64_t number = 1; number <= 4; ++number) static_cast<void>(run.step(number));
  const auto planner = dynamic_cast<const BudgetMode&>(run.mode()).planner();
  ASSERT_NE(planner, nullptr);
  ASSERT_EQ(planner->options().blocks(), 3U);
  EXPECT_EQ(planner->options().name(1), "pair.0");
  EXPECT_EQ(planner->options().name(2), "pair.1");
}

TEST(SegmentScopes, nest_and_the_innermost_counts) {
  const at::Tensor weight = at::randn({8, 8}).set_requires_grad(true);
  ModelView view;
  view.parameters.emplace_back("layer.weight", weight);
  test::RecordingSink sink(view);
  at::Tensor loss;
  {
    const SavedTensorScope recorded(sink);
    const SegmentScope outer("outer");
    at::Tensor h = at::linear(at::randn({4, 8}), weight);
    {
      const SegmentScope inner("inner");
      h = at::linear(h, weight);
    }
    loss = at::linear(h, weight).sum();
  }
  loss.backward();
  const StepGraph graph = sink.take();
  std::vector<std::string> products;
  for (const RecordedOperator& op : graph.operators) {
    if (op.name != "aten::mm" && op.name != "aten::addmm" && op.name != "aten::linear") continue;
    products.push_back(graph.segments.at(static_cast<size_t>(op.segment)));
  }
  EXPECT_EQ(products, (std::vector<std::string>{"outer", "inner", "outer"}));
}

TEST(SegmentScopes, are_of_the_thread_that_opened_them) {
  const SegmentScope here("here");
  const std::string* elsewhere = SegmentScope::current();
  std::thread([&] { elsewhere = SegmentScope::current(); }).join();
  EXPECT_EQ(elsewhere, nullptr);
  EXPECT_EQ(*SegmentScope::current(), "here");
}

TEST(SegmentScopes, close_when_an_exception_passes) {
  try {
    const SegmentScope scope("scope");
    throw std::runtime_error("in the middle of a block");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(SegmentScope::current(), nullptr);
  }
}

TEST(SegmentScopes, may_end_in_any_order) {
  auto first = std::make_unique<SegmentScope>("first");
  auto second = std::make_unique<SegmentScope>("second");
  first.reset();
  EXPECT_EQ(*SegmentScope::current(), "second");
  second.reset();
  EXPECT_EQ(SegmentScope::current(), nullptr);
}

/// A chain of so many scopes could not end without overflowing the stack.
TEST(SegmentScopes, that_overlap_are_no_chain) {
  std::unique_ptr<SegmentScope> scope;
  for (int i = 0; i < 1'000'000; ++i) scope = std::make_unique<SegmentScope>("block");
  scope.reset();
  EXPECT_EQ(SegmentScope::current(), nullptr);
}

TEST(SegmentScopesDeathTest, end_the_program_where_they_end_on_another_thread) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        auto scope = std::make_unique<SegmentScope>("here");
        std::thread([&scope] { scope.reset(); }).join();
      },
      "SegmentScope: a scope ended on another thread than it began on");
}

TEST(SegmentScopes, refuse_to_have_no_name) {
  EXPECT_THROW(static_cast<void>(SegmentScope("")), std::invalid_argument);
  EXPECT_EQ(SegmentScope::current(), nullptr);
}

}  // namespace
}  // namespace noisemark::memopt
