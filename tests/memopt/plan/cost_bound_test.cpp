// The lower bound of a budget's cost against every plan that decides storage by storage.

#include "memopt/plan/cost_bound.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "memopt/codecs/codecs.h"
#include "tests/memopt/plan/recorded_nets.h"

namespace noisemark::memopt {
namespace {

using Codecs = std::vector<std::shared_ptr<const Codec>>;
using Ask = bool(const StepGraph&, const RecordedOperator&);

bool is_anything(const StepGraph& /*graph*/, const RecordedOperator& /*op*/) {
  return true;
}
bool is_nothing(const StepGraph& /*graph*/, const RecordedOperator& /*op*/) {
  return false;
}
bool is_pool(const StepGraph& /*graph*/, const RecordedOperator& op) {
  return op.name == "aten::max_pool2d_with_indices";
}
bool is_linear(const StepGraph& /*graph*/, const RecordedOperator& op) {
  return op.name == "aten::mm" || op.name == "aten::addmm" || op.name == "aten::linear";
}

/// A smaller form for more time, and a larger one for less.
const Codecs& two_codecs() {
  static const Codecs codecs = {make_mask_codec(), make_narrow_codec()};
  return codecs;
}
constexpr int64_t kMaskNs = 11'000;
constexpr int64_t kNarrowNs = 3'000;

CodecFigures figures() {
  return [](const Codec& codec, const RecordedValue& value) {
    const bool mask = codec.name() == "mask1";
    const int64_t ns = mask ? kMaskNs : kNarrowNs;
    return CodecFigure{value.bytes() / (mask ? 32 : 2), ns, ns};
  };
}

Policy policy_with(Ask* may_replay, bool encodes) {
  Policy policy;
  policy.may_replay = may_replay;
  if (encodes) policy.codec = [](const StepGraph&, ValueId) { return two_codecs(); };
  return policy;
}

BlockOptions two_options_of(const std::shared_ptr<const StepGraph>& graph, Ask* may_replay,
                            bool encodes) {
  return {graph,
          {{"keep", policy_with(&is_nothing, false)}, {"free", policy_with(may_replay, encodes)}},
          Overrides{}};
}

/// A storage is treated thus: 0 kept, 1 and 2 encoded by that of the two codecs, 3 made again.
constexpr int kWays = 4;
constexpr int kAgain = 3;
using Ways = std::map<StorageId, int>;

/// The bytes and cost of a plan that treats the storages in these ways.
PeakTimeline timeline_of(const std::shared_ptr<const StepGraph>& graph, const Ways& ways,
                         Ask* may_replay) {
  Overrides overrides;
  for (const auto& [storage, way] : ways) {
    if (way == kAgain) continue;
    for (const ValueId id : graph->storages[static_cast<size_t>(storage)].values) {
      overrides.keep.insert(id);
    }
  }
  Policy policy = policy_with(may_replay, false);
  policy.codec = [&ways](const StepGraph& of, ValueId id) -> Codecs {
    const auto way = ways.find(of.values[static_cast<size_t>(id)].storage);
    const bool encoded = way != ways.end() && (way->second == 1 || way->second == 2);
    return encoded ? Codecs{two_codecs()[static_cast<size_t>(way->second - 1)]} : Codecs{};
  };
  return simulate(resolve(graph, policy, overrides), figures());
}

/// The next of all ways; false after the last.
bool advance(Ways& ways) {
  for (auto& [storage, way] : ways) {
    if (++way < kWays) return true;
    way = 0;
  }
  return false;
}

CostBound bound_of(const BlockOptions& options, bool live = false) {
  const PeakTimeline kept = kept_timeline(options.graph());
  return {options, figures(), kept, other_bytes(*options.graph(), kept), live};
}

/// The bound of plans that hold so many bytes less at the peak than when everything is kept.
double bound_to_free(int64_t bytes, const BlockOptions& options) {
  const int64_t kept_bytes = kept_timeline(options.graph()).peak_saved_bytes;
  return bound_of(options).within(kept_bytes - bytes);
}

/// Every plan of the graph against its bounds, of what is held for backward and of all owners.
/// Returns how tight the bound of the first is where it is tightest, in parts of what a plan costs.
double expect_below_every_plan(const std::shared_ptr<const StepGraph>& graph, Ask* may_replay) {
  Ways ways;
  for (const StorageId storage : test::saved_storages(*graph)) ways[storage] = 0;
  EXPECT_LE(ways.size(), 8U) << "there are " << kWays << " ways for each";
  const BlockOptions options = two_options_of(graph, may_replay, /*encodes=*/true);
  const CostBound of_saved = bound_of(options);
  const CostBound of_live = bound_of(options, /*live=*/true);
  const std::vector<OtherBytes> other = other_bytes(graph);
  double tightest = 0;
  do {
    const PeakTimeline plan = timeline_of(graph, ways, may_replay);
    const auto cost = static_cast<double>(plan.cost_ns);
    const double least = of_saved.within(plan.peak_saved_bytes);
    EXPECT_LE(least, cost) << "within " << plan.peak_saved_bytes;
    EXPECT_LE(of_live.within(peak_bytes(plan, other)), cost) << "of all owners";
    if (testing::Test::HasFailure()) return 0;
    if (cost > 0) tightest = std::max(tightest, least / cost);
  } while (advance(ways));
  return tightest;
}

/// A few operators at random: activations, convolutions, pooling, products of halves that share
/// their memory, skip connections. Not all costs are alike.
std::shared_ptr<StepGraph> random_net(uint64_t seed) {
  std::mt19937_64 random(seed);
  at::manual_seed(seed);
  ModelView view;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "layer." + std::to_string(i) + ".weight";
    view.parameters.emplace_back(name, at::randn({4, 4, 1, 1}).set_requires_grad(true));
  }
  const auto weight = [&](size_t i) { return view.parameters[i % 3].second; };
  const at::Tensor x = at::randn({2, 4, 8, 8});
  auto graph = test::record(view, [&] {
    at::Tensor h = at::conv2d(x, weight(0));
    for (int i = 0; i < 3; ++i) {
      switch (random() % 7) {
        case 0:
          h = at::relu(h);
          break;
        case 1:
          h = at::silu(h);
          break;
        case 2:
          h = at::conv2d(h.tanh(), weight(static_cast<size_t>(i)));
          break;
        case 3:
          h = at::max_pool2d(h, {2, 2});
          break;
        case 4: {
          const std::vector<at::Tensor> halves = h.chunk(2, 1);
          h = at::cat({halves[0] * halves[1], halves[0]}, 1);
          break;
        }
        case 5:
          h = h + at::silu(h);
          break;
        default:
          h = h * at::tanh(h);
      }
    }
    return h.square().sum();
  });
  for (RecordedOperator& op : graph->operators) {
    op.cost_ns = 1'000 + static_cast<int64_t>(random() % 40'000);
  }
  return graph;
}

TEST(CostBound, is_below_every_plan_that_decides_storage_by_storage) {
  double tight = 0;
  int tried = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const std::shared_ptr<const StepGraph> graph = random_net(seed);
    if (test::saved_storages(*graph).size() > 5) continue;
    tight += expect_below_every_plan(graph, &is_anything);
    ++tried;
    if (HasFailure()) return;
  }
  EXPECT_GE(tried, 20);
  EXPECT_GE(tight / tried, 0.5) << "a bound of nothing would be no bound";
}

/// Both results of pooling are saved, and much else that is let go before backward asks for them.
/// Its map is of integers, which have no history and are kept: here it is as if they had, so that
/// one operator makes two storages again.
std::shared_ptr<StepGraph> pooled_net() {
  ModelView view;
  for (const int64_t inputs : {4, 4, 16}) {
    const std::string name = "layer." + std::to_string(view.parameters.size()) + ".weight";
    view.parameters.emplace_back(name, at::randn({4, inputs, 1, 1}).set_requires_grad(true));
  }
  const at::Tensor x = at::randn({2, 4, 8, 8});
  auto graph = test::record(view, [&] {
    at::Tensor h = at::conv2d(x, view.parameters[0].second);
    h = at::conv2d(at::max_pool2d(h, {2, 2}), view.parameters[1].second);
    h = at::conv2d(at::cat({h, h, h, h}, 1), view.parameters[2].second);
    return h.square().sum();
  });
  test::set_costs(*graph);
  for (RecordedValue& value : graph->values) value.has_history = true;
  return graph;
}

int64_t cost_of(const StepGraph& graph, Ask* which) {
  int64_t ns = 0;
  for (const RecordedOperator& op : graph.operators) ns += which(graph, op) ? op.cost_ns : 0;
  return ns;
}

/// Bytes of saved storages whose first value such an operator made.
int64_t bytes_made_by(const StepGraph& graph, Ask* which) {
  int64_t bytes = 0;
  for (const StorageId id : test::saved_storages(graph)) {
    const RecordedStorage& storage = graph.storages[static_cast<size_t>(id)];
    const RecordedOperator* producer = graph.producer_of(storage.values.front());
    if (producer != nullptr && which(graph, *producer)) bytes += storage.bytes;
  }
  return bytes;
}

/// The bound allows for so much rounding.
constexpr double kPart = 1e-6;

// One call of max_pool2d_with_indices gives the values and the map. Counted once for each, the
// bound would be twice what it costs; not counted for one of them, half.
TEST(CostBound, shares_out_an_operator_among_the_storages_that_it_makes) {
  const std::shared_ptr<const StepGraph> graph = pooled_net();
  const BlockOptions options = two_options_of(graph, &is_pool, /*encodes=*/false);
  const auto once = static_cast<double>(cost_of(*graph, &is_pool));
  const int64_t both = bytes_made_by(*graph, &is_pool);
  ASSERT_GT(both, 0);
  EXPECT_NEAR(bound_to_free(both, options), once, kPart * once);
  EXPECT_NEAR(bound_to_free(2 * both, options), once, kPart * once) << "there is no more to free";
  // With codecs the bound takes part of another storage for the last 512 bytes, which is cheaper.
  EXPECT_GE(expect_below_every_plan(graph, &is_pool), 0.9) << "some plan does just that";
}

/// Three parts of one result, all saved: they share its memory.
std::shared_ptr<StepGraph> chunked_net() {
  ModelView view;
  view.parameters.emplace_back("layer.weight", at::randn({48, 16}).set_requires_grad(true));
  const at::Tensor x = at::randn({64, 16});
  auto graph = test::record(view, [&] {
    const std::vector<at::Tensor> parts = at::linear(x, view.parameters[0].second).chunk(3, 1);
    return (parts[0] * parts[1] * parts[2]).sum();
  });
  for (RecordedOperator& op : graph->operators) {
    op.cost_ns = is_linear(*graph, op) ? 90'000 : 0;  // views cost nothing
  }
  return graph;
}

// To free the memory all three parts must be made again, from one run of the operator behind them.
TEST(CostBound, counts_what_views_are_made_from_once_for_the_memory_that_they_share) {
  const std::shared_ptr<const StepGraph> graph = chunked_net();
  const BlockOptions options = two_options_of(graph, &is_anything, /*encodes=*/false);
  const auto once = static_cast<double>(cost_of(*graph, &is_linear));
  const int64_t shared = bytes_made_by(*graph, &is_linear);
  ASSERT_EQ(shared, 64 * 48 * 4);
  EXPECT_GE(bound_to_free(shared + 64 * 16 * 4, options), (1 - kPart) * once);
  EXPECT_LE(bound_to_free(shared + 64 * 16 * 4, options), (1 + kPart) * once);
  expect_below_every_plan(graph, &is_anything);
}

std::shared_ptr<StepGraph> one_storage_net() {
  ModelView view;
  view.parameters.emplace_back("layer.weight", at::randn({4, 4, 1, 1}).set_requires_grad(true));
  const at::Tensor x = at::randn({2, 4, 8, 8});
  return test::record(view,
                      [&] { return at::conv2d(x, view.parameters[0].second).square().sum(); });
}

TEST(CostBound, takes_the_cheaper_codec_first_and_the_smaller_form_where_that_does_not_suffice) {
  const std::shared_ptr<const StepGraph> graph = one_storage_net();
  const BlockOptions options = two_options_of(graph, &is_nothing, /*encodes=*/true);
  const int64_t bytes = graph->saved_bytes();
  ASSERT_EQ(bytes, 2 * 4 * 8 * 8 * 4);
  const int64_t by_narrow = bytes / 2;
  const int64_t by_mask = bytes - bytes / 32;
  EXPECT_NEAR(bound_to_free(by_narrow, options), 2 * kNarrowNs, kPart * kNarrowNs);
  EXPECT_NEAR(bound_to_free(by_mask, options), 2 * kMaskNs, kPart * kMaskNs);
  EXPECT_NEAR(bound_to_free((by_narrow + by_mask) / 2, options), kNarrowNs + kMaskNs,
              kPart * kMaskNs);
  EXPECT_EQ(bound_to_free(0, options), 0);
}

TEST(CostBound, never_falls_with_the_bytes_that_are_left) {
  const std::shared_ptr<const StepGraph> graph = random_net(5);
  for (const bool live : {false, true}) {
    const CostBound bound = bound_of(two_options_of(graph, &is_anything, /*encodes=*/true), live);
    double before = 0;
    for (int64_t bytes = 2 * graph->saved_bytes(); bytes >= 0; bytes -= 256) {
      const double ns = bound.within(bytes);
      EXPECT_GE(ns, before) << bytes;
      before = ns;
    }
    EXPECT_GT(before, 0);
  }
}

TEST(CostBound, is_above_zero_wherever_something_must_be_freed) {
  for (const auto& graph : {test::recorded_small_net(), test::recorded_small_relu_net()}) {
    const CostBound bound = bound_of(two_options_of(graph, &is_anything, /*encodes=*/true));
    const int64_t kept_bytes = kept_timeline(graph).peak_saved_bytes;
    EXPECT_EQ(bound.within(kept_bytes), 0);
    for (int64_t bytes = kept_bytes - 1; bytes >= 0; bytes -= 1024) {
      EXPECT_GT(bound.within(bytes), 0) << bytes;
    }
  }
}

/// ReLU's result is saved, and nobody saves the sum that it is made of.
std::shared_ptr<StepGraph> unsaved_sum_net() {
  ModelView view;
  for (const char* name : {"layer.0.weight", "layer.1.weight"}) {
    view.parameters.emplace_back(name, at::randn({4, 4, 1, 1}).set_requires_grad(true));
  }
  const at::Tensor x = at::randn({2, 4, 8, 8});
  auto graph = test::record(view, [&] {
    const at::Tensor h = at::conv2d(x, view.parameters[0].second).tanh();
    return at::conv2d(at::relu(h + h), view.parameters[1].second).tanh().tanh().sum();
  });
  test::set_costs(*graph);
  return graph;
}

bool is_sum_or_relu(const StepGraph& /*graph*/, const RecordedOperator& op) {
  return op.name == "aten::relu" || op.name == "aten::add";
}

// For the result of ReLU alone it would be half of that.
TEST(CostBound, counts_what_nobody_saved_on_the_way) {
  const std::shared_ptr<const StepGraph> graph = unsaved_sum_net();
  const BlockOptions options = two_options_of(graph, &is_sum_or_relu, /*encodes=*/false);
  const auto both = static_cast<double>(cost_of(*graph, &is_sum_or_relu));
  ASSERT_EQ(both, 2 * 7'000);
  EXPECT_NEAR(bound_to_free(graph->saved_bytes(), options), both, kPart * both);
  expect_below_every_plan(graph, &is_sum_or_relu);
}

TEST(FreeableStorages, are_neither_used_by_the_program_nor_asked_for_by_backward) {
  const std::shared_ptr<const StepGraph> graph = test::recorded_small_net();
  const FreeableStorages freeable(*graph);
  const PeakTimeline kept = kept_timeline(graph);
  int asked = 0;
  for (size_t e = 0; e < kept.events.size(); ++e) {
    int64_t freeable_bytes = 0;
    for (const StorageId id : test::saved_storages(*graph)) {
      const bool free = freeable.at(id, 2 * e + 1);
      freeable_bytes += free ? graph->storages[static_cast<size_t>(id)].bytes : 0;
    }
    EXPECT_LE(freeable_bytes, kept.events[e].at.saved) << "event " << e;
    if (kept.events[e].slot == kNone || !kept.events[e].backward) continue;
    const auto slot = static_cast<size_t>(kept.events[e].slot);
    const RecordedValue& value = graph->values[static_cast<size_t>(graph->slots[slot].value)];
    EXPECT_FALSE(freeable.at(value.storage, 2 * e + 1)) << "event " << e;
    ++asked;
  }
  EXPECT_GT(asked, 6);
  // Between forward and backward the program has let go of all but what it ends with.
  int64_t waiting = 0;
  for (const StorageId id : test::saved_storages(*graph)) {
    waiting += freeable.at(id, 2 * graph->slots.size()) ? 1 : 0;
  }
  EXPECT_GE(waiting, 6);
}

}  // namespace
}  // namespace noisemark::memopt
