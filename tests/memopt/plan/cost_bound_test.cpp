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

#include "memopt/codecs/mask.h"
#include "memopt/codecs/narrow.h"
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

BlockOptions options_of(const std::shared_ptr<const StepGraph>& graph, Ask* may_replay,
                        bool encodes) {
  return {graph,
          {{"keep", policy_with(&is_nothing, false)}, {"free", policy_with(may_replay, encodes)}},
          Overrides{}};
}

/// How a storage is treated: 0 kept, 1 and 2 encoded by that of the two codecs, 3 made again.
constexpr int kWays = 4;
constexpr int kAgain = 3;
using Ways = std::map<StorageId, int>;

/// What a plan that treats the storages in these ways holds and costs.
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

/// Every plan of the graph against its bound. Returns how tight the bound is where it is tightest,
/// in parts of what a plan costs.
double expect_below_every_plan(const std::shared_ptr<const StepGraph>& graph, Ask* may_replay) {
  Ways ways;
  for (const StorageId storage : test::saved_storages(*graph)) ways[storage] = 0;
  EXPECT_LE(ways.size(), 8U) << "there are " << kWays << " ways for each";
  const CostBound bound(options_of(graph, may_replay, /*encodes=*/true), figures());
  const int64_t kept_bytes = kept_timeline(graph).peak_saved_bytes;
  double tightest = 0;
  do {
    const PeakTimeline plan = timeline_of(graph, ways, may_replay);
    const int64_t freed = kept_bytes - plan.peak_saved_bytes;
    if (freed <= 0) continue;
    const double least = bound.to_free(freed);
    const auto cost = static_cast<double>(plan.cost_ns);
    EXPECT_LE(least, cost) << freed << " bytes freed";
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

/// Of the rounding that the bound allows for.
constexpr double kPart = 1e-6;

// One call of max_pool2d_with_indices gives the values and the map. Counted once for each, the
// bound would be twice what it costs; not counted for one of them, half.
TEST(CostBound, shares_out_an_operator_among_the_storages_that_it_makes) {
  const std::shared_ptr<const StepGraph> graph = pooled_net();
  const CostBound bound(options_of(graph, &is_pool, /*encodes=*/false), figures());
  const auto once = static_cast<double>(cost_of(*graph, &is_pool));
  const int64_t both = bytes_made_by(*graph, &is_pool);
  ASSERT_GT(both, 0);
  EXPECT_NEAR(bound.to_free(both), once, kPart * once);
  EXPECT_NEAR(bound.to_free(2 * both), once, kPart * once) << "there is no more to free";
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
  const CostBound bound(options_of(graph, &is_anything, /*encodes=*/false), figures());
  const auto once = static_cast<double>(cost_of(*graph, &is_linear));
  const int64_t shared = bytes_made_by(*graph, &is_linear);
  ASSERT_EQ(shared, 64 * 48 * 4);
  EXPECT_GE(bound.to_free(shared + 64 * 16 * 4), (1 - kPart) * once);
  EXPECT_LE(bound.to_free(shared + 64 * 16 * 4), (1 + kPart) * once);
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
  const CostBound bound(options_of(graph, &is_nothing, /*encodes=*/true), figures());
  const int64_t bytes = graph->saved_bytes();
  ASSERT_EQ(bytes, 2 * 4 * 8 * 8 * 4);
  const int64_t by_narrow = bytes / 2;
  const int64_t by_mask = bytes - bytes / 32;
  EXPECT_NEAR(bound.to_free(by_narrow), 2 * kNarrowNs, kPart * kNarrowNs);
  EXPECT_NEAR(bound.to_free(by_mask), 2 * kMaskNs, kPart * kMaskNs);
  EXPECT_NEAR(bound.to_free((by_narrow + by_mask) / 2), kNarrowNs + kMaskNs, kPart * kMaskNs);
  EXPECT_EQ(bound.to_free(0), 0);
}

TEST(CostBound, never_falls_when_more_is_to_be_freed) {
  const std::shared_ptr<const StepGraph> graph = random_net(5);
  const CostBound bound(options_of(graph, &is_anything, /*encodes=*/true), figures());
  double before = 0;
  for (int64_t bytes = 0; bytes <= graph->saved_bytes() * 5 / 4; bytes += 256) {
    const double ns = bound.to_free(bytes);
    EXPECT_GE(ns, before) << bytes;
    before = ns;
  }
  EXPECT_GT(before, 0);
}

}  // namespace
}  // namespace noisemark::memopt
