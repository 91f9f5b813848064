// The ways to treat a block that are there to be chosen, and when each of them is.

#include "memopt/plan/options.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memopt/plan/codec_figures.h"
#include "tests/memopt/mode_run.h"
#include "tests/memopt/plan/recorded_nets.h"

namespace noisemark::memopt {
namespace {

using test::option_named;
using Names = std::set<std::string>;

/// A U-Net in small, with ReLU and max pooling or with SiLU.
test::TestModel block_net(bool relu) {
  test::TestModel model;
  const auto net = std::make_shared<test::BlockNet>(16, relu);
  net->pools = relu;
  net->generator = model.generator;
  const at::Tensor x = at::randn({2, 3, 32, 32});
  model.view = net->view();
  model.loss = [net, x] { return net->forward(x).square().mean(); };
  return model;
}

/// The options that a budget mode chooses from once it has tried everything.
std::shared_ptr<const Planner> planner_of(const test::MakeModel& make) {
  test::ModeRun run("budget:saved=64GiB", make);
  for (int64_t number = 1; number <= 4; ++number) static_cast<void>(run.step(number));
  EXPECT_EQ(run.report().missing_reason, "");
  return dynamic_cast<const BudgetMode&>(run.mode()).planner();
}

std::shared_ptr<const BlockOptions> known_options(const test::MakeModel& make) {
  const std::shared_ptr<const Planner> planner = planner_of(make);
  return {planner, &planner->options()};
}

/// The bytes that codecs make of a value, in so much time each way.
CodecFigures priced(int64_t ns) {
  return [ns](const Codec& codec, const RecordedValue& value) {
    CodecFigure figure = measured_codec_figures(at::kCPU)(codec, value);
    figure.encode_ns = figure.decode_ns = ns;
    return figure;
  };
}

Names codecs_in(const TreatmentPlan& plan) {
  Names names;
  for (const ValueTreatment& value : plan.values) {
    if (value.codec != nullptr) names.emplace(value.codec->name());
  }
  return names;
}

TEST(BlockOptions, hold_signs_maps_and_masks_in_few_bits_where_that_costs_least) {
  const auto options = known_options([] { return block_net(true); });
  const Planner planner(options, BudgetTarget::kPeakSaved, priced(1));
  const int64_t kept_bytes = planner.curve().front().saved_bytes;
  Names codecs;
  int64_t least_bytes = kept_bytes;
  for (const PlanPoint& point : planner.curve()) {
    const TreatmentPlan plan = planner.plan(point);
    if (summarize(plan).recipes > 0) continue;
    least_bytes = std::min(least_bytes, point.saved_bytes);
    codecs.merge(codecs_in(plan));
  }
  EXPECT_EQ(codecs, (Names{"mask1", "pool4", "sign1", "ssdc"}));
  EXPECT_LT(least_bytes, kept_bytes * 3 / 4) << "as mode gist alone";
}

TEST(BlockOptions, hold_masks_in_one_bit_where_nothing_else_would_be_exact) {
  const auto options = known_options([] { return block_net(false); });
  const Planner planner(options, BudgetTarget::kPeakSaved, priced(1));
  const auto answer = planner.within(planner.curve().front().peak_saved_bytes);
  ASSERT_TRUE(answer.has_value());
  const TreatmentPlan plan = planner.plan(answer->point);
  EXPECT_EQ(codecs_in(plan), Names{"mask1"}) << "cheaper than to make anything again";
  EXPECT_EQ(summarize(plan).recipes, 0);
  const size_t exact = option_named(*options, "exact");
  EXPECT_GT(std::count(answer->point.chosen.begin(), answer->point.chosen.end(), exact), 0);
}

TEST(BlockOptions, encode_nothing_where_to_make_it_again_costs_less) {
  constexpr int64_t kCostly = 1'000'000'000;
  const auto options = known_options([] { return block_net(true); });
  const Planner planner(options, BudgetTarget::kPeakSaved, priced(kCostly));
  int made_again = 0;
  for (const PlanPoint& point : planner.curve()) {
    const TreatmentPlan plan = planner.plan(point);
    if (point.cost_ns >= kCostly) continue;
    EXPECT_EQ(codecs_in(plan), Names{});
    made_again += summarize(plan).recipes > 0 ? 1 : 0;
  }
  EXPECT_GT(made_again, 0);
}

TEST(BlockOptions, of_gist_are_those_without_it_where_nothing_is_sparse) {
  const auto smooth = known_options([] { return block_net(false); });
  const auto sparse = known_options([] { return block_net(true); });
  const std::pair<const char*, const char*> pairs[] = {
      {"exact", "gist"}, {"echo", "echo+gist"}, {"mirror", "mirror+gist"}};
  for (const auto& [without, with] : pairs) {
    const size_t plain = option_named(*smooth, without);
    const size_t gist = option_named(*smooth, with);
    EXPECT_EQ(smooth->same_as(gist), plain) << with;
    EXPECT_EQ(smooth->same_as(plain), plain) << without;
    EXPECT_EQ(sparse->same_as(gist), gist) << with;
  }
  EXPECT_EQ(smooth->same_as(0), 0U);
  EXPECT_NE(smooth->same_as(option_named(*smooth, "exact")), 0U) << "there are masks";
}

// The cost of codecs is part of the prices, so it is known before the options are.
TEST(BudgetMode, measures_codecs_before_it_plans_and_apart) {
  test::ModeRun run("budget:saved=64GiB", [] { return block_net(true); });
  for (int64_t number = 1; number <= 2; ++number) static_cast<void>(run.step(number));
  const auto& mode = dynamic_cast<const BudgetMode&>(run.mode());
  EXPECT_EQ(mode.codec_measuring_s(), 0) << "nothing is chosen yet";
  const double to_compare_s = mode.planning_s();
  for (int64_t number = 3; number <= 4; ++number) static_cast<void>(run.step(number));
  EXPECT_GT(mode.codec_measuring_s(), 0);
  EXPECT_GT(mode.planning_s(), to_compare_s);
  const BlockOptions& options = mode.planner()->options();
  EXPECT_GT(options.options().size(), options.unlimited());
}

TEST(BlockOptions, give_no_value_a_codec_that_did_not_take_it) {
  const auto options = known_options([] { return block_net(true); });
  int dense = 0;
  for (size_t o = 0; o < options->options().size(); ++o) {
    const TreatmentPlan plan = options->plan(std::vector<size_t>(options->blocks(), o));
    for (size_t v = 0; v < plan.values.size(); ++v) {
      const RecordedOperator* producer = plan.graph->producer_of(static_cast<ValueId>(v));
      if (producer == nullptr || producer->name != "aten::convolution") continue;
      EXPECT_EQ(plan.values[v].codec, nullptr) << options->options()[o].name;
      ++dense;
    }
  }
  EXPECT_GT(dense, 0);
}

/// The result of the first layer's ReLU, of which about 47 % is above zero.
test::TestModel nearly_half_zero() {
  test::TestModel model;
  const at::Tensor x = at::randn({128, 128});
  for (const char* name : {"0.weight", "1.weight"}) {
    const at::Tensor weight = at::randn({128, 128}).mul_(0.1).set_requires_grad(true);
    model.view.parameters.emplace_back(name, weight);
  }
  const at::Tensor first = model.view.parameters[0].second;
  const at::Tensor second = model.view.parameters[1].second;
  model.loss = [x, first, second] {
    return at::linear(at::relu(at::linear(x, first) - 0.085), second).square().sum();
  };
  return model;
}

// Mode gist takes the room of 50 %. A budget is to be kept in the steps after the recorded one too.
TEST(BlockOptions, leave_some_of_the_room_of_sparse_storage_for_later_steps) {
  const auto options = known_options(&nearly_half_zero);
  Names rooms;
  for (size_t v = 0; v < options->graph()->values.size(); ++v) {
    const RecordedOperator* producer = options->graph()->producer_of(static_cast<ValueId>(v));
    if (producer == nullptr || producer->name != "aten::relu") continue;
    for (const auto& codec : options->codecs_of(static_cast<ValueId>(v))) {
      if (codec->name() == "ssdc") rooms.insert(codec->form().substr(0, 15));
    }
  }
  EXPECT_EQ(rooms, (Names{"ssdc, room 0.65", "ssdc, room 0.80"}));
}

}  // namespace
}  // namespace noisemark::memopt
