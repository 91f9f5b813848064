#include "memopt/plan/planner.h"

#include <ATen/Context.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "memopt/codecs/narrow.h"
#include "memopt/plan/codec_figures.h"
#include "memopt/plan/cost_bound.h"
#include "memopt/record/recorder.h"
#include "memopt/saved_tensor_scope.h"
#include "memopt/tracking_allocator.h"
#include "tests/memopt/block_net.h"

namespace noisemark::memopt {
namespace {

class RecordingSink final : public SavedTensorSink {
 public:
  explicit RecordingSink(const ModelView& view) : recorder_(view, &cpu_allocation_source()) {}
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return recorder_.make_hooks();
  }
  void end_forward() override { recorder_.end_forward(); }
  std::shared_ptr<StepGraph> take() { return std::make_shared<StepGraph>(recorder_.take()); }

 private:
  StepRecorder recorder_;
};

std::shared_ptr<StepGraph> record(const ModelView& view, const std::function<at::Tensor()>& run) {
  RecordingSink sink(view);
  at::Tensor loss;
  {
    const SavedTensorScope scope(sink);
    loss = run();
  }
  loss.backward();
  return sink.take();
}

/// Costs that do not depend on the machine.
void set_costs(StepGraph& graph) {
  for (RecordedOperator& op : graph.operators) {
    const bool heavy = op.name == "aten::convolution" || op.name == "aten::addmm" ||
                       op.name == "aten::mm" || op.name == "aten::linear";
    op.cost_ns = heavy ? 90'000 : 7'000;
  }
}

std::shared_ptr<StepGraph> recorded_block_net() {
  at::manual_seed(3);
  const test::BlockNet net;
  const at::Tensor x = at::randn({2, 3, 16, 16});
  auto graph = record(net.view(), [&] { return net.forward(x).square().mean(); });
  set_costs(*graph);
  return graph;
}

/// Two blocks of a linear layer and two activations each: few enough tensors to try every subset.
std::shared_ptr<StepGraph> recorded_small_net() {
  at::manual_seed(4);
  ModelView view;
  for (const char* name : {"a.0.weight", "a.1.weight", "b.0.weight", "b.1.weight"}) {
    view.parameters.emplace_back(name, at::randn({32, 32}).set_requires_grad(true));
  }
  const at::Tensor x = at::randn({64, 32});
  auto graph = record(view, [&] {
    at::Tensor h = x;
    for (const auto& [name, weight] : view.parameters) h = at::silu(at::linear(h, weight)).tanh();
    return h.sum();
  });
  set_costs(*graph);
  return graph;
}

CodecFigures no_codecs() {
  return [](const Codec&, const RecordedValue& value) { return CodecFigure{value.bytes(), 0, 0}; };
}

std::vector<BlockOption> options_without_codecs() {
  std::vector<BlockOption> options = lossless_options();
  for (BlockOption& option : options) option.policy.codec = nullptr;
  return options;
}

std::shared_ptr<const BlockOptions> options_of(std::shared_ptr<const StepGraph> graph) {
  return std::make_shared<const BlockOptions>(std::move(graph), options_without_codecs(),
                                              Overrides{});
}

class PlannerOfTarget : public testing::TestWithParam<BudgetTarget> {};

TEST_P(PlannerOfTarget, stays_within_fifty_random_budgets_and_falls_with_them) {
  const Planner planner(options_of(recorded_block_net()), GetParam(), no_codecs());
  const int64_t smallest = planner.smallest_bytes();
  const int64_t largest = planner.curve().front().of(GetParam());
  ASSERT_LT(smallest, largest);
  std::mt19937_64 random(1);
  std::vector<int64_t> budgets;
  for (int i = 0; i < 50; ++i) {
    const auto share = static_cast<int64_t>(random() % 10'000);
    budgets.push_back(smallest + (largest - smallest) * share / 9'000);
  }
  std::sort(budgets.rbegin(), budgets.rend());
  int64_t bytes = std::numeric_limits<int64_t>::max();
  int64_t cost_ns = 0;
  for (const int64_t budget : budgets) {
    const auto answer = planner.within(budget);
    ASSERT_TRUE(answer.has_value()) << budget;
    EXPECT_LE(answer->point.of(GetParam()), budget);
    EXPECT_LE(answer->point.of(GetParam()), bytes);
    EXPECT_GE(answer->point.cost_ns, cost_ns);
    EXPECT_LE(answer->lower_bound_ns, static_cast<double>(answer->point.cost_ns));
    bytes = answer->point.of(GetParam());
    cost_ns = answer->point.cost_ns;
  }
}

TEST_P(PlannerOfTarget, says_no_below_the_smallest_budget_alone) {
  const Planner planner(options_of(recorded_block_net()), GetParam(), no_codecs());
  EXPECT_TRUE(planner.within(planner.smallest_bytes()).has_value());
  EXPECT_TRUE(planner.within(planner.smallest_bytes() * 105 / 100).has_value());
  EXPECT_FALSE(planner.within(planner.smallest_bytes() - 1).has_value());
}

TEST_P(PlannerOfTarget, keeps_everything_when_the_budget_allows_it) {
  const Planner planner(options_of(recorded_block_net()), GetParam(), no_codecs());
  const auto answer = planner.within(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(answer->point.cost_ns, 0);
  EXPECT_EQ(answer->gap(), 0);
  EXPECT_EQ(summarize(planner.plan(answer->point)).recipes, 0);
}

TEST_P(PlannerOfTarget, promises_what_the_timeline_of_its_plan_says) {
  const Planner planner(options_of(recorded_block_net()), GetParam(), no_codecs());
  for (const PlanPoint& point : planner.curve()) {
    const PeakTimeline timeline = simulate(planner.plan(point), no_codecs());
    EXPECT_EQ(timeline.peak_saved_bytes, point.peak_saved_bytes);
    EXPECT_EQ(timeline.saved_bytes, point.saved_bytes);
    EXPECT_EQ(timeline.cost_ns, point.cost_ns);
  }
}

/// From keeping everything to the smallest, and a little beyond both.
std::vector<int64_t> forty_budgets(const Planner& planner) {
  const int64_t smallest = planner.smallest_bytes();
  const int64_t largest = planner.curve().front().of(planner.target());
  std::vector<int64_t> budgets;
  for (int64_t i = 0; i <= 40; ++i) budgets.push_back(smallest + (largest - smallest) * i / 39);
  return budgets;
}

INSTANTIATE_TEST_SUITE_P(Targets, PlannerOfTarget,
                         testing::Values(BudgetTarget::kPeak, BudgetTarget::kPeakSaved),
                         [](const auto& info) {
                           return info.param == BudgetTarget::kPeak ? "peak" : "peak_saved";
                         });

/// Every subset of the saved values kept, the others made again where that is possible.
struct Subset {
  int64_t peak_bytes;
  int64_t cost_ns;
};
std::vector<Subset> every_subset(const std::shared_ptr<const StepGraph>& graph) {
  Policy any;
  any.may_replay = [](const StepGraph&, const RecordedOperator&) { return true; };
  std::vector<ValueId> saved;
  for (size_t v = 0; v < graph->values.size(); ++v) {
    const RecordedValue& value = graph->values[v];
    const bool counts = !graph->storages[static_cast<size_t>(value.storage)].external;
    if (!value.slots.empty() && counts) saved.push_back(static_cast<ValueId>(v));
  }
  EXPECT_LE(saved.size(), 16U);
  EXPECT_GE(saved.size(), 6U);
  std::vector<Subset> subsets;
  for (size_t mask = 0; mask < size_t{1} << saved.size(); ++mask) {
    Overrides overrides;
    for (size_t i = 0; i < saved.size(); ++i) {
      if ((mask >> i & 1) != 0) overrides.keep.insert(saved[i]);
    }
    const PeakTimeline timeline = simulate(resolve(graph, any, overrides), no_codecs());
    subsets.push_back({timeline.peak_saved_bytes, timeline.cost_ns});
  }
  return subsets;
}

TEST(PlannerAgainstEverySubset, stays_near_the_best_subset_of_kept_tensors) {
  const std::shared_ptr<StepGraph> graph = recorded_small_net();
  const std::vector<Subset> subsets = every_subset(graph);
  const Planner planner(options_of(graph), BudgetTarget::kPeakSaved, no_codecs());
  // Blocks are treated as one: at a budget between two of their sizes, the next smaller one costs
  // at most the replay of one block more.
  int64_t one_block_ns = 0;
  for (const RecordedOperator& op : graph->operators) {
    if (op.segment <= 0) one_block_ns += op.cost_ns;
  }
  for (const PlanPoint& point : planner.curve()) {
    int64_t best_ns = std::numeric_limits<int64_t>::max();
    for (const Subset& subset : subsets) {
      if (subset.peak_bytes <= point.peak_saved_bytes) best_ns = std::min(best_ns, subset.cost_ns);
    }
    // Two levels of replay can hold less than any subset does.
    if (best_ns == std::numeric_limits<int64_t>::max()) continue;
    EXPECT_GE(point.cost_ns, best_ns);
    EXPECT_LE(point.cost_ns, best_ns + one_block_ns) << point.peak_saved_bytes;
  }
}

/// The least that any subset costs within a budget.
std::optional<int64_t> best_within(const std::vector<Subset>& subsets, int64_t budget) {
  std::optional<int64_t> best;
  for (const Subset& subset : subsets) {
    if (subset.peak_bytes <= budget) best = std::min(best.value_or(subset.cost_ns), subset.cost_ns);
  }
  return best;
}

TEST(PlannerAgainstEverySubset, has_a_bound_below_the_best_subset_and_a_plan_above_the_bound) {
  const std::shared_ptr<StepGraph> graph = recorded_small_net();
  const std::vector<Subset> subsets = every_subset(graph);
  const Planner planner(options_of(graph), BudgetTarget::kPeakSaved, no_codecs());
  int tight = 0;
  for (const int64_t budget : forty_budgets(planner)) {
    const auto answer = planner.within(budget);
    ASSERT_TRUE(answer.has_value());
    EXPECT_LE(answer->lower_bound_ns, static_cast<double>(answer->point.cost_ns));
    const std::optional<int64_t> best_ns = best_within(subsets, budget);
    if (!best_ns) continue;
    EXPECT_LE(answer->lower_bound_ns, static_cast<double>(*best_ns)) << budget;
    EXPECT_GE(answer->point.cost_ns, *best_ns) << budget;
    tight += *best_ns > 0 && answer->lower_bound_ns >= 0.25 * static_cast<double>(*best_ns) ? 1 : 0;
  }
  // Half of what making tanh's result again takes is SiLU's on the way, which the bound leaves out;
  // it also frees storages in part, of which the best subset must free all.
  EXPECT_GE(tight, 5) << "a bound of nothing would be no bound";
}

TEST(BudgetAnswer, has_a_gap_only_where_a_bound_is_known) {
  BudgetAnswer answer;
  EXPECT_EQ(answer.gap(), 0) << "nothing costs less than nothing";
  answer.point.cost_ns = 10;
  EXPECT_FALSE(answer.gap().has_value());
  answer.lower_bound_ns = 8;
  EXPECT_EQ(answer.gap(), 0.25);
}

constexpr int64_t kCodecNs = 1000;

/// Halves whatever it is given, in so much time each way.
CodecFigures halving_codecs() {
  return [](const Codec&, const RecordedValue& value) {
    return CodecFigure{value.bytes() / 2, kCodecNs, kCodecNs};
  };
}

Policy encoding_policy() {
  Policy policy;
  policy.may_replay = [](const StepGraph&, const RecordedOperator&) { return false; };
  policy.codec = [](const StepGraph&, ValueId, int attempt) {
    return attempt == 0 ? make_narrow_codec(at::kBFloat16) : nullptr;
  };
  return policy;
}

TEST(CostBound, of_codecs_is_below_every_subset_that_is_encoded) {
  const std::shared_ptr<StepGraph> graph = recorded_small_net();
  Policy keep = encoding_policy();
  keep.codec = nullptr;
  const BlockOptions options(graph, {{"keep", keep}, {"encode", encoding_policy()}}, Overrides{});
  const CostBound bound(options, halving_codecs());
  const int64_t kept_bytes = kept_timeline(graph).peak_saved_bytes;
  std::vector<ValueId> saved;
  for (size_t v = 0; v < graph->values.size(); ++v) {
    const RecordedValue& value = graph->values[v];
    const bool counts = !graph->storages[static_cast<size_t>(value.storage)].external;
    if (!value.slots.empty() && counts) saved.push_back(static_cast<ValueId>(v));
  }
  ASSERT_LE(saved.size(), 12U);
  double highest = 0;
  for (size_t mask = 0; mask < size_t{1} << saved.size(); ++mask) {
    Overrides overrides;
    for (size_t i = 0; i < saved.size(); ++i) {
      if ((mask >> i & 1) != 0) overrides.refusals[saved[i]] = Overrides::kEveryCodec;
    }
    const PeakTimeline timeline =
        simulate(resolve(graph, encoding_policy(), overrides), halving_codecs());
    if (timeline.peak_saved_bytes >= kept_bytes) continue;
    const double least = bound.to_free(kept_bytes - timeline.peak_saved_bytes);
    EXPECT_LE(least, static_cast<double>(timeline.cost_ns)) << mask;
    highest = std::max(highest, least);
  }
  EXPECT_GT(highest, 2 * kCodecNs) << "more than one codec's time";
}

/// Cost and peak of every choice of options.
TEST(PlannerAgainstEveryChoice, finds_the_cheapest_where_all_can_be_tried) {
  const std::shared_ptr<const BlockOptions> options = options_of(recorded_small_net());
  const Planner planner(options, BudgetTarget::kPeakSaved, no_codecs());
  std::vector<std::vector<size_t>> all = {{}};
  for (size_t block = 0; block < options->blocks(); ++block) {
    std::vector<std::vector<size_t>> longer;
    for (const std::vector<size_t>& chosen : all) {
      for (size_t option = 0; option < options->options().size(); ++option) {
        longer.push_back(chosen);
        longer.back().push_back(option);
      }
    }
    all = longer;
  }
  for (const std::vector<size_t>& chosen : all) {
    const PeakTimeline timeline = simulate(options->plan(chosen), no_codecs());
    const auto answer =
        planner.within(budget_for(BudgetTarget::kPeakSaved, timeline.peak_saved_bytes));
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(answer->exact);
    EXPECT_LE(answer->point.cost_ns, timeline.cost_ns);
  }
}

CodecFigures quartering_codecs() {
  return [](const Codec& codec, const RecordedValue& value) {
    return CodecFigure{value.bytes() / (codec.lossless() ? 32 : 4), 1000, 1000};
  };
}

constexpr double kErrorOfAValue = 1e-3;

/// The same for every value that is rounded, uncorrelated.
double error_by_count(const std::shared_ptr<const TreatmentPlan>& plan) {
  double squared = 0;
  for (const ValueTreatment& value : plan->values) {
    const bool rounded = value.codec != nullptr && !value.codec->lossless();
    squared += rounded ? kErrorOfAValue * kErrorOfAValue : 0;
  }
  return std::sqrt(squared);
}

std::shared_ptr<const BlockOptions> rounding_options() {
  return std::make_shared<const BlockOptions>(recorded_block_net(), all_options(), Overrides{});
}

size_t option_named(const BlockOptions& options, const std::string& name) {
  for (size_t o = 0; o < options.options().size(); ++o) {
    if (options.options()[o].name == name) return o;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(ErrorModel, adds_up_over_blocks_to_what_was_measured_with_everything_rounded) {
  const auto options = rounding_options();
  const ErrorModel model = measured_error_model(*options, error_by_count, 1);
  for (const char* name : {"dpr16", "dpr8", "q2"}) {
    const std::vector<size_t> all(options->blocks(), option_named(*options, name));
    const double measured =
        error_by_count(std::make_shared<const TreatmentPlan>(options->plan(all)));
    ASSERT_GT(measured, 0);
    // The least share of a block that measured nothing.
    EXPECT_NEAR(model.of(all), measured * measured, 2e-3 * measured * measured);
    EXPECT_FALSE(model.of(std::vector<size_t>(options->blocks(), 0)) > 0);
  }
}

TEST(ErrorModel, that_was_told_to_allows_nothing_that_rounds) {
  const auto options = rounding_options();
  ErrorModel model = measured_error_model(*options, error_by_count, 1);
  model.forbid_rounding(options->options());
  std::vector<size_t> chosen(options->blocks(), option_named(*options, "mirror"));
  EXPECT_TRUE(model.allows(chosen));
  chosen.back() = option_named(*options, "echo+dpr16");
  EXPECT_FALSE(model.allows(chosen));
}

TEST(PlannerWithErrors, rounds_only_where_that_is_allowed_and_never_expects_more) {
  const auto options = rounding_options();
  std::vector<int64_t> smallest;
  std::vector<bool> rounds;
  for (const double limit : {1e-9, 2 * kErrorOfAValue, 1.0}) {
    const Planner planner(options, BudgetTarget::kPeakSaved, quartering_codecs(),
                          measured_error_model(*options, error_by_count, limit));
    for (const PlanPoint& point : planner.curve()) EXPECT_LE(point.error, limit);
    EXPECT_EQ(planner.curve().front().error, 0) << "keeping everything costs nothing";
    smallest.push_back(planner.smallest_bytes());
    rounds.push_back(std::any_of(planner.curve().begin(), planner.curve().end(),
                                 [](const PlanPoint& point) { return point.error > 0; }));
  }
  EXPECT_LE(smallest[1], smallest[0]);
  EXPECT_LE(smallest[2], smallest[1]);
  EXPECT_FALSE(rounds[0]);
  EXPECT_TRUE(rounds[2]);
}

}  // namespace
}  // namespace noisemark::memopt
