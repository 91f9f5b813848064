#include "memopt/plan/cuts.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "memopt/modes/planned_mode.h"
#include "tests/memopt/mode_run.h"
#include "tests/memopt/plan/recorded_nets.h"

namespace noisemark::memopt::test {
namespace {

constexpr int64_t kWidth = 32;
constexpr int64_t kLength = 32;
constexpr int kLayers = 6;

/// Layers of attention and perceptron, whose weights have the names that `name` makes of a layer's
/// number and of what the weight is for.
TestModel transformer(const std::function<std::string(int, const char*)>& name) {
  TestModel model;
  std::vector<at::Tensor> weights;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const auto& [word, out, in] : {std::tuple("qkv", 3 * kWidth, kWidth),
                                        {"out", kWidth, kWidth},
                                        {"up", 4 * kWidth, kWidth},
                                        {"down", kWidth, 4 * kWidth}}) {
      weights.push_back(at::randn({out, in}).mul_(0.1).set_requires_grad(true));
      model.view.parameters.emplace_back(name(layer, word), weights.back());
    }
  }
  const at::Tensor x = at::randn({4, kLength, kWidth});
  model.loss = [weights, x] {
    at::Tensor h = at::linear(x, weights[1]);
    for (size_t at = 0; at < weights.size(); at += 4) {
      const auto qkv = at::linear(at::layer_norm(h, {kWidth}), weights[at]).chunk(3, 2);
      const auto head = [](const at::Tensor& part) { return part.unsqueeze(1); };
      h = h +
          at::linear(
              at::scaled_dot_product_attention(head(qkv[0]), head(qkv[1]), head(qkv[2])).squeeze(1),
              weights[at + 1]);
      const at::Tensor up = at::gelu(at::linear(at::layer_norm(h, {kWidth}), weights[at + 2]));
      h = h + at::linear(up, weights[at + 3]);
    }
    return h.square().mean();
  };
  return model;
}

std::string block_each(int layer, const char* word) {
  return "layers." + std::to_string(layer) + "." + word + ".weight";
}

std::string half_blocks(int layer, const char* word) {
  const bool first = std::string_view(word) == "qkv" || std::string_view(word) == "out";
  return "layers." + std::to_string(layer) + (first ? ".attention." : ".perceptron.") + word +
         ".weight";
}

std::string no_blocks(int layer, const char* word) {
  return word + std::to_string(layer);
}

bool is_attention(const StepGraph& /*graph*/, const RecordedOperator& op) {
  return op.name.find("attention") != std::string::npos;
}

TEST(Cuts, lie_between_two_layers_where_only_their_sum_crosses) {
  at::manual_seed(3);
  const TestModel model = transformer(block_each);
  const auto graph = record(model.view, model.loss);
  const std::vector<int32_t> parts = parts_between(*graph, is_attention);
  ASSERT_EQ(parts.size(), graph->operators.size());
  EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
  EXPECT_EQ(parts.front(), 0);
  EXPECT_EQ(parts.back(), kLayers - 1);
  for (const RecordedValue& value : graph->values) {
    if (value.producer == kNone) continue;
    const bool crosses =
        std::any_of(value.readers.begin(), value.readers.end(), [&](OperatorId reader) {
          return parts[static_cast<size_t>(reader)] != parts[static_cast<size_t>(value.producer)];
        });
    if (!crosses) continue;
    EXPECT_EQ(value.bytes(), 4 * kLength * kWidth * 4);
  }
}

TEST(Cuts, are_not_made_where_nothing_or_one_operator_runs_apart) {
  const auto graph = recorded_block_net();
  const std::vector<int32_t> uncut(graph->operators.size(), 0);
  EXPECT_EQ(parts_between(*graph, is_attention), uncut);
  EXPECT_EQ(parts_between(*graph, [](const auto&, const auto&) { return false; }), uncut);
}

/// The cases: names that tell blocks, and names that do not.
class AttentionMadeAgain
    : public testing::TestWithParam<std::string (*)(int layer, const char* word)> {};

TEST_P(AttentionMadeAgain, takes_one_layer_at_a_time_in_backward) {
  const MakeModel make = [] { return transformer(GetParam()); };
  ModeRun none("none", make);
  ModeRun echo("echo+attn", make);
  for (int64_t number = 1; number <= 5; ++number) {
    SCOPED_TRACE(number);
    expect_equal(none.step(number), echo.step(number));
  }
  const auto& mode = dynamic_cast<const PlannedMode&>(echo.mode());
  const PlannedModeReport report = mode.report();
  EXPECT_EQ(report.missing_reason, "");
  EXPECT_EQ(report.counters.departures + report.counters.mismatches, 0);
  const std::optional<PlanEstimate> estimate = mode.estimate();
  ASSERT_TRUE(estimate.has_value());
  EXPECT_LE(estimate->saved_bytes * 6, report.plan.recorded_bytes);
  EXPECT_LE(estimate->peak_saved_bytes * 5 / 2, report.plan.recorded_bytes);
}

INSTANTIATE_TEST_SUITE_P(Names, AttentionMadeAgain,
                         testing::Values(&block_each, &half_blocks, &no_blocks));

}  // namespace
}  // namespace noisemark::memopt::test
