#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "memopt/modes/budget.h"
#include "memopt/plan/freed_storages.h"
#include "memopt/plan/planner.h"
#include "tests/memopt/followed_plans.h"
#include "tests/memopt/measured_step.h"
#include "tests/memopt/plan/recorded_nets.h"

// Storages of one block that are treated differently, by what it costs to free them.

namespace noisemark::memopt {
namespace {

using test::no_codecs;
using test::option_named;
using test::options_of;

TEST(PriceLimits, are_at_thirds_of_the_bytes_by_rising_price) {
  const std::vector<PriceLimit> limits =
      price_limits({{0, 100, 1000}, {1, 100, 10}, {2, 100, 100}});
  ASSERT_EQ(limits.size(), 2U);
  EXPECT_DOUBLE_EQ(limits[0].most_ns_per_byte, 0.1);
  EXPECT_EQ(limits[0].held, (std::vector<StorageId>{0, 2}));
  EXPECT_DOUBLE_EQ(limits[1].most_ns_per_byte, 1);
  EXPECT_EQ(limits[1].held, (std::vector<StorageId>{0}));
}

TEST(PriceLimits, are_none_where_every_byte_costs_about_the_same) {
  EXPECT_TRUE(price_limits({{0, 100, 100}, {1, 100, 110}, {2, 200, 240}}).empty());
  EXPECT_TRUE(price_limits({{0, 100, 100}}).empty());
  EXPECT_TRUE(price_limits({}).empty());
}

TEST(PriceLimits, are_spelled_with_two_digits) {
  EXPECT_EQ(words_of({0.8312, {}}), "up to 0.83 ns/B");
  EXPECT_EQ(words_of({1.26, {}}), "up to 1.3 ns/B");
  EXPECT_EQ(words_of({123.4, {}}), "up to 123 ns/B");
}

constexpr int64_t kCheapNs = 1'000;
constexpr int64_t kDearNs = 40'000;

/// The values behind the third and the fourth layer cost far more to make again than what follows
/// the first and the second. An activation belongs to the block that reads it: what follows the
/// second and the third layer is of one block, the last.
constexpr size_t kMixedBlock = 2;
std::shared_ptr<StepGraph> uneven_net() {
  std::shared_ptr<StepGraph> graph = test::recorded_small_net();
  for (const char* name : {"aten::silu", "aten::tanh"}) {
    int seen = 0;
    for (RecordedOperator& op : graph->operators) {
      if (op.name == name) op.cost_ns = seen++ < 2 ? kCheapNs : kDearNs;
    }
  }
  return graph;
}

std::shared_ptr<BlockOptions> limited_options_of(std::shared_ptr<const StepGraph> graph) {
  std::shared_ptr<BlockOptions> options = options_of(std::move(graph));
  options->add_price_limits(no_codecs());
  return options;
}

TEST(FreedStorages, share_out_all_that_a_plan_costs) {
  const auto options = options_of(uneven_net());
  const TreatmentPlan plan =
      options->plan(std::vector<size_t>(options->blocks(), option_named(*options, "echo")));
  const PeakTimeline timeline = simulate(plan, no_codecs());
  double ns = 0;
  int64_t bytes = 0;
  for (const FreedStorage& freed : freed_storages(plan, no_codecs())) {
    ns += freed.ns;
    bytes += freed.bytes;
    EXPECT_EQ(freed.bytes, options->graph()->storages[static_cast<size_t>(freed.storage)].bytes);
  }
  EXPECT_EQ(bytes, summarize(plan).dropped_bytes);
  EXPECT_GT(timeline.cost_ns, 2 * kDearNs);
  // The bound is that of sums of doubles.
  EXPECT_NEAR(ns, static_cast<double>(timeline.cost_ns), 1e-3);
}

TEST(FreedStorages, cost_no_more_than_the_plan_that_frees_them) {
  const auto options = options_of(test::recorded_block_net());
  for (size_t o = 0; o < options->options().size(); ++o) {
    const TreatmentPlan plan = options->plan(std::vector<size_t>(options->blocks(), o));
    double ns = 0;
    for (const FreedStorage& freed : freed_storages(plan, no_codecs())) ns += freed.ns;
    EXPECT_LE(ns, static_cast<double>(simulate(plan, no_codecs()).cost_ns) + 1e-3)
        << options->options()[o].name;
  }
}

TEST(FreedStorages, of_encoded_ones_cost_what_their_codec_does) {
  const std::shared_ptr<const StepGraph> graph = test::recorded_small_relu_net();
  const BlockOptions options(graph, lossless_options(), Overrides{});
  const std::vector<size_t> gist(options.blocks(), option_named(options, "gist"));
  const TreatmentPlan plan = options.plan(gist);
  const CodecFigures figures = test::even_codecs(4, 500);
  double ns = 0;
  for (const FreedStorage& freed : freed_storages(plan, figures)) {
    EXPECT_EQ(freed.bytes, graph->storages[static_cast<size_t>(freed.storage)].bytes * 3 / 4);
    EXPECT_EQ(freed.ns, 1000) << "there and back";
    ns += freed.ns;
  }
  EXPECT_EQ(ns, static_cast<double>(simulate(plan, figures).cost_ns));
  EXPECT_GT(ns, 0);
}

/// A cheap value is made again; a dear one is held although the option could make it again.
TEST(OptionsWithPriceLimits, treat_the_storages_of_one_block_differently) {
  const auto options = limited_options_of(uneven_net());
  const size_t limited = option_named(*options, "echo, up to ", /*rest=*/true);
  ASSERT_GE(limited, options->unlimited());
  const TreatmentPlan plan = options->plan(std::vector<size_t>(options->blocks(), limited));
  int made_again = 0;
  int held = 0;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const RecordedOperator* producer = plan.graph->producer_of(static_cast<ValueId>(v));
    if (producer == nullptr || plan.graph->values[v].slots.empty()) continue;
    if (options->block_of_operator(plan.graph->values[v].producer) != kMixedBlock) continue;
    if (plan.values[v].source == Source::kMadeAgain) {
      EXPECT_EQ(producer->cost_ns, kCheapNs) << producer->name;
      ++made_again;
    }
    if (plan.values[v].reason == KeepReason::kCostly) {
      EXPECT_EQ(producer->cost_ns, kDearNs) << producer->name;
      ++held;
    }
  }
  EXPECT_GT(made_again, 0);
  EXPECT_GT(held, 0);
}

struct Tried {
  int64_t peak_bytes;
  int64_t cost_ns;
};

/// Every choice for the two blocks among the first so many options.
std::vector<Tried> every_choice(const BlockOptions& options, size_t among) {
  std::vector<Tried> tried;
  for (size_t a = 0; a < among; ++a) {
    for (size_t b = 0; b < among; ++b) {
      const PeakTimeline timeline = simulate(options.plan({0, a, b}), no_codecs());
      tried.push_back({timeline.peak_saved_bytes, timeline.cost_ns});
    }
  }
  return tried;
}

int64_t cheapest_within(const std::vector<Tried>& tried, int64_t bytes) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Tried& one : tried) {
    if (one.peak_bytes <= bytes) least = std::min(least, one.cost_ns);
  }
  return least;
}

TEST(OptionsWithPriceLimits, are_cheaper_than_any_choice_that_treats_a_block_as_one) {
  const auto options = limited_options_of(uneven_net());
  ASSERT_EQ(options->blocks(), 3U);
  const std::vector<Tried> whole = every_choice(*options, options->unlimited());
  const std::vector<Tried> all = every_choice(*options, options->options().size());
  const Planner planner(options, BudgetTarget::kPeakSaved, no_codecs());
  int64_t most_saved_ns = 0;
  for (const Tried& one : all) {
    const int64_t of_whole = cheapest_within(whole, one.peak_bytes);
    const int64_t of_all = cheapest_within(all, one.peak_bytes);
    const auto answer = planner.within(budget_for(BudgetTarget::kPeakSaved, one.peak_bytes));
    ASSERT_TRUE(answer.has_value());
    EXPECT_LE(answer->point.cost_ns, of_all);
    most_saved_ns = std::max(most_saved_ns, of_whole - of_all);
  }
  // Two operators of a layer: what follows the dear one need not be made again.
  EXPECT_GE(most_saved_ns, kDearNs);
}

TEST(OptionsWithPriceLimits, can_be_those_of_other_options_for_the_same_step) {
  const auto known = limited_options_of(uneven_net());
  const auto options = options_of(known->graph());
  options->add_price_limits_of(*known);
  ASSERT_EQ(options->options().size(), known->options().size());
  ASSERT_EQ(options->unlimited(), known->unlimited());
  for (size_t o = 0; o < options->options().size(); ++o) {
    const std::vector<size_t> all(options->blocks(), o);
    EXPECT_EQ(options->options()[o].name, known->options()[o].name);
    const PeakTimeline a = simulate(options->plan(all), no_codecs());
    const PeakTimeline b = simulate(known->plan(all), no_codecs());
    EXPECT_EQ(std::pair(a.peak_saved_bytes, a.cost_ns), std::pair(b.peak_saved_bytes, b.cost_ns));
  }
}

TEST(BlockOptions, that_are_left_out_of_a_block_are_treated_as_one_that_is_not) {
  const auto options = limited_options_of(uneven_net());
  ASSERT_EQ(options->blocks(), 3U);
  const auto sources = [&](size_t a) {
    std::vector<Source> of;
    for (const ValueTreatment& value : options->plan({0, a, 0}).values) of.push_back(value.source);
    return of;
  };
  const std::vector<size_t> distinct = options->distinct_in(1);
  EXPECT_LT(distinct.size(), options->options().size()) << "there is no attention";
  for (size_t o = 0; o < options->options().size(); ++o) {
    EXPECT_TRUE(std::any_of(distinct.begin(), distinct.end(), [&](size_t d) {
      return sources(d) == sources(o);
    })) << options->options()[o].name;
  }
  EXPECT_EQ(options->distinct_in(0).size(), 1U) << "nothing is saved outside the blocks";
}

/// Makes the graph with costs that tell storages of one kind apart, as a device's do.
std::shared_ptr<StepGraph> block_net_of_many_prices() {
  std::shared_ptr<StepGraph> graph = test::recorded_block_net();
  int64_t i = 0;
  for (RecordedOperator& op : graph->operators) op.cost_ns = op.cost_ns * (1 + i++ % 5) / 2;
  return graph;
}

class CurvesOfTarget : public testing::TestWithParam<BudgetTarget> {};

TEST_P(CurvesOfTarget, with_price_limits_are_never_above_those_without) {
  const std::shared_ptr<const StepGraph> graph = block_net_of_many_prices();
  const Planner without(options_of(graph), GetParam(), no_codecs());
  const Planner with(limited_options_of(graph), GetParam(), no_codecs());
  EXPECT_LE(with.smallest_bytes(), without.smallest_bytes());
  const int64_t smallest = without.smallest_bytes();
  const int64_t largest = without.curve().front().of(GetParam());
  double cost_with = 0;
  double cost_without = 0;
  for (int64_t i = 0; i <= 40; ++i) {
    const int64_t budget = smallest + (largest - smallest) * i / 39;
    const auto a = with.within(budget);
    const auto b = without.within(budget);
    ASSERT_TRUE(a.has_value() && b.has_value()) << budget;
    EXPECT_LE(a->point.cost_ns, b->point.cost_ns) << budget;
    cost_with += static_cast<double>(a->point.cost_ns);
    cost_without += static_cast<double>(b->point.cost_ns);
  }
  EXPECT_LT(cost_with, cost_without);
}

INSTANTIATE_TEST_SUITE_P(Targets, CurvesOfTarget,
                         testing::Values(BudgetTarget::kPeak, BudgetTarget::kPeakSaved),
                         [](const auto& info) {
                           return info.param == BudgetTarget::kPeak ? "peak" : "peak_saved";
                         });

TEST(FilledGaps, hold_single_storages_of_the_smaller_plan) {
  const auto options = options_of(block_net_of_many_prices());
  const Planner planner(options, BudgetTarget::kPeakSaved, no_codecs());
  const auto filled = std::find_if(planner.curve().begin(), planner.curve().end(),
                                   [](const PlanPoint& point) { return !point.held.empty(); });
  ASSERT_NE(filled, planner.curve().end());
  const TreatmentPlan plan = planner.plan(*filled);
  const TreatmentPlan whole = options->plan(filled->chosen);
  for (const StorageId id : filled->held) {
    for (const ValueId v : options->graph()->storages[static_cast<size_t>(id)].values) {
      const auto at = static_cast<size_t>(v);
      if (options->graph()->values[at].slots.empty()) continue;
      EXPECT_EQ(plan.values[at].source, Source::kHeld);
      EXPECT_NE(whole.values[at].source, Source::kHeld) << "it was freed before";
    }
  }
  const PeakTimeline timeline = simulate(plan, no_codecs());
  EXPECT_EQ(timeline.peak_saved_bytes, filled->peak_saved_bytes);
  EXPECT_EQ(timeline.cost_ns, filled->cost_ns);
  EXPECT_LT(timeline.cost_ns, simulate(whole, no_codecs()).cost_ns);
}

// Every plan of the curve, also those that hold single storages.
TEST(MeasuredCurve, holds_what_its_plans_predict) {
  test::FollowedPlans mode(BudgetTarget::kPeakSaved);
  test::MeasuredTraining training(mode, 4, 32, false);
  training.warm_up();
  const Planner& planner = mode.planner();
  for (const PlanPoint& point : planner.curve()) {
    std::string words;
    for (size_t block = 0; block < point.chosen.size(); ++block) {
      words += planner.options().name(block) + ": " +
               planner.options().options()[point.chosen[block]].name + "; ";
    }
    for (const StorageId id : point.held) {
      const RecordedStorage& storage = planner.options().graph()->storages[static_cast<size_t>(id)];
      words += planner.options().graph()->words_for(storage.values.front()) + " of " +
               std::to_string(storage.bytes) + " bytes held; ";
    }
    mode.follow(planner.plan(point));
    const int64_t bytes = training.measured_step().peak_saved_bytes;
    EXPECT_LE(bytes, budget_for(BudgetTarget::kPeakSaved, point.peak_saved_bytes)) << words;
  }
}

}  // namespace
}  // namespace noisemark::memopt
