#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "baselines/fused_norm.h"
#include "baselines/ops.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode_grammar.h"
#include "memopt/modes/planned_mode.h"
#include "memopt/modes/policies.h"
#include "tests/baselines/norm_cases.h"

// A fused norm made again from its statistics: alone, and as memory modes do it.
namespace noisemark::baselines::test {
namespace {

using kernels::Act;

void expect_same_bits(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.scalar_type(), b.scalar_type());
  ASSERT_EQ(a.strides(), b.strides());
  EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()), 0);
}

/// Shapes, orders and types, with weights and biases at which every rounding shows.
void for_each_norm(const std::function<void(const NormCase&, const at::Tensor& x,
                                            const at::Tensor& weight, const at::Tensor& bias)>& f) {
  at::manual_seed(7);
  for (const NormCase& c : norm_cases(kNormShapes)) {
    SCOPED_TRACE(c.name);
    const at::Tensor x = in_order((at::randn(c.sizes) * 2 + 0.5).to(c.type), c.order);
    f(c, x, at::randn({c.sizes[1]}), at::randn({c.sizes[1]}));
  }
}

TEST(NormFromStatistics, has_the_bits_of_the_forward_pass) {
  for_each_norm(
      [](const NormCase& c, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
        for (const Act act : {Act::kNone, Act::kSilu, Act::kRelu}) {
          const auto [y, mean, rstd] = group_norm_act(x, c.groups, weight, bias, 1e-5, act);
          expect_same_bits(
              group_norm_act_from_statistics(x, c.groups, weight, bias, act, mean, rstd), y);
        }
      });
}

TEST(NormFromStatistics, of_an_rms_norm_has_the_bits_of_the_forward_pass) {
  for_each_norm(
      [](const NormCase& c, const at::Tensor& x, const at::Tensor& g, const at::Tensor& /*bias*/) {
        const at::Tensor both = at::randn({c.sizes[0], 2 * c.sizes[1], 1, 1}).to(c.type);
        const std::optional<at::Tensor> scale = both.slice(1, 0, c.sizes[1]);
        const std::optional<at::Tensor> shift = both.slice(1, c.sizes[1]);
        for (const Act act : {Act::kNone, Act::kSilu, Act::kRelu}) {
          for (const bool film : {false, true}) {
            const auto& by = film ? scale : std::nullopt;
            const auto& plus = film ? shift : std::nullopt;
            const auto [y, inverse] = rms_norm_act(x, g, by, plus, act);
            expect_same_bits(rms_norm_act_from_statistics(x, g, by, plus, act, inverse), y);
          }
        }
      });
}

TEST(NormFromStatistics, of_an_rms_norm_reads_the_norm_that_it_is_given) {
  const at::Tensor x = at::randn({2, 8, 4, 4});
  const at::Tensor g = at::randn({8});
  const auto [y, inverse] = rms_norm_act(x, g, {}, {}, Act::kNone);
  const at::Tensor twice = rms_norm_act_from_statistics(x, g, {}, {}, Act::kNone, inverse * 2);
  expect_same_bits(twice, y * 2);
}

TEST(NormFromStatistics, has_them_with_another_number_of_threads) {
  const int threads = at::get_num_threads();
  for_each_norm(
      [](const NormCase& c, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
        at::set_num_threads(1);
        const auto [y, mean, rstd] = group_norm_act(x, c.groups, weight, bias, 1e-5, Act::kSilu);
        at::set_num_threads(3);
        expect_same_bits(
            group_norm_act_from_statistics(x, c.groups, weight, bias, Act::kSilu, mean, rstd), y);
      });
  at::set_num_threads(threads);
}

TEST(NormFromStatistics, reads_the_statistics_that_it_is_given) {
  const at::Tensor x = at::randn({2, 8, 4, 4});
  const at::Tensor weight = at::randn({8});
  const auto [y, mean, rstd] = group_norm_act(x, 2, weight, weight, 1e-5, Act::kNone);
  const at::Tensor other =
      group_norm_act_from_statistics(x, 2, weight, weight, Act::kNone, mean + 1, rstd * 2);
  // (x - mean - 1) * 2 rstd * weight + weight.
  const at::Tensor by = (rstd * 2).repeat_interleave(4, 1).view({2, 8, 1, 1});
  const at::Tensor centre = (mean + 1).repeat_interleave(4, 1).view({2, 8, 1, 1});
  const at::Tensor expected =
      (x - centre) * by * weight.view({1, 8, 1, 1}) + weight.view({1, 8, 1, 1});
  EXPECT_LE(error(other, expected), tolerance(at::kFloat));
}

TEST(NormFromStatistics, refuses_statistics_of_another_number_of_groups) {
  const at::Tensor x = at::randn({2, 8, 4, 4});
  const at::Tensor weight = at::randn({8});
  EXPECT_THROW((void)group_norm_act_from_statistics(x, 2, weight, weight, Act::kNone,
                                                    at::randn({2, 4}), at::randn({2, 4})),
               c10::Error);
}

/// Fused norms between convolutions, with dropout, as blocks of a U-Net have them.
class NormNet {
 public:
  NormNet(at::MemoryFormat order, at::ScalarType type) : type_(type) {
    at::manual_seed(3);
    x_ = at::randn({2, kChannels, 16, 16}).to(type).contiguous(order);
    for (int i = 0; i < kBlocks; ++i) {
      const std::string name = "block." + std::to_string(i);
      add(name + ".norm.weight", at::randn({kChannels}));
      add(name + ".norm.bias", at::randn({kChannels}));
      add(name + ".conv.weight",
          (at::randn({kChannels, kChannels, 3, 3}) * 0.1).to(type).contiguous(order));
    }
    add("last.g", at::randn({1, kChannels, 1, 1}));
    add("last.weight", at::randn({1, kChannels, 1, 1}).to(type));
  }

  at::Tensor loss() const {
    at::Tensor h = x_;
    for (size_t i = 0; i + 3 <= parameters_.size(); i += 3) {
      const auto act = i == 0 ? Activation::kRelu : Activation::kSilu;
      const at::Tensor& weight = parameters_[i].second;
      const at::Tensor& bias = parameters_[i + 1].second;
      at::Tensor y = fused_ops().group_norm_act(h, kGroups, weight, bias, 1e-5, act);
      y = at::dropout(y, 0.1, /*train=*/true);
      h = h + at::conv2d(y, parameters_[i + 2].second, {}, 1, 1);
    }
    const size_t last = 3 * kBlocks;
    h = fused_ops().rms_norm_film_silu(h, parameters_[last].second, {}, {});
    h = at::conv2d(h, parameters_[last + 1].second);
    return h.to(at::kFloat).square().mean();
  }

  [[nodiscard]] memopt::ModelView view() const {
    memopt::ModelView view;
    view.parameters = parameters_;
    return view;
  }

  std::vector<at::Tensor> take_gradients() {
    std::vector<at::Tensor> gradients;
    for (auto& [name, parameter] : parameters_) {
      gradients.push_back(parameter.grad().clone());
      parameter.mutable_grad() = at::Tensor();
    }
    return gradients;
  }

 private:
  static constexpr int64_t kChannels = 16;
  static constexpr int64_t kGroups = 4;
  static constexpr int kBlocks = 3;

  void add(const std::string& name, const at::Tensor& tensor) {
    parameters_.emplace_back(name, tensor.detach().clone().set_requires_grad(true));
  }

  at::ScalarType type_;
  at::Tensor x_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
};

struct NormNetCase {
  const char* name;
  at::MemoryFormat order;
  at::ScalarType type;
};

constexpr int64_t kSteps = 6;

/// "echo", or without what makes a norm again from its statistics.
class Echo final : public memopt::PlannedMode {
 public:
  explicit Echo(bool shortcuts)
      : PlannedMode("echo", /*lossless=*/true, memopt::policy_of(memopt::parse_mode("echo"))),
        shortcuts_(shortcuts) {}

 private:
  memopt::TreatmentPlan plan_for(std::shared_ptr<const memopt::StepGraph> graph,
                                 const memopt::Overrides& overrides, bool verified) override {
    memopt::Overrides more = overrides;
    for (size_t v = 0; !shortcuts_ && v < graph->values.size(); ++v) {
      more.replay.insert(static_cast<memopt::ValueId>(v));
    }
    return PlannedMode::plan_for(std::move(graph), more, verified);
  }

  bool shortcuts_;
};

/// Loss and gradients of each step; the mode is left as the last step left it.
std::vector<std::vector<at::Tensor>> train(const NormNetCase& c, memopt::Mode& mode) {
  NormNet net(c.order, c.type);
  mode.attach(net.view());
  std::vector<std::vector<at::Tensor>> steps;
  for (int64_t number = 1; number <= kSteps; ++number) {
    at::manual_seed(static_cast<uint64_t>(number));
    mode.begin_step(number);
    at::Tensor loss;
    {
      const memopt::SavedTensorScope scope(mode);
      loss = net.loss();
    }
    loss.backward();
    mode.end_step();
    steps.push_back(net.take_gradients());
    steps.back().push_back(loss.detach());
  }
  return steps;
}

int64_t recipes_named(const memopt::PlannedMode& mode, const std::string& name) {
  const auto& recipes = mode.plan()->recipes;
  return std::count_if(recipes.begin(), recipes.end(),
                       [&](const auto& recipe) { return recipe->name == name; });
}

constexpr const char* kReplay = "noisemark::group_norm_act";
constexpr const char* kShortcut = "noisemark::group_norm_act_from_statistics";
constexpr const char* kRmsReplay = "noisemark::rms_norm_act";
constexpr const char* kRmsShortcut = "noisemark::rms_norm_act_from_statistics";

class EchoOfFusedNorms : public testing::TestWithParam<NormNetCase> {};

TEST_P(EchoOfFusedNorms, makes_every_norm_again_from_its_statistics_with_the_bits_of_none) {
  const std::unique_ptr<memopt::Mode> none = memopt::make_mode("none");
  const auto expected = train(GetParam(), *none);
  Echo echo(/*shortcuts=*/true);
  const auto got = train(GetParam(), echo);
  for (size_t step = 0; step < expected.size(); ++step) {
    for (size_t i = 0; i < expected[step].size(); ++i) {
      EXPECT_TRUE(got[step][i].equal(expected[step][i])) << "step " << step + 1 << ", " << i;
    }
  }
  ASSERT_NE(echo.plan(), nullptr);
  EXPECT_EQ(recipes_named(echo, kShortcut), 3);
  EXPECT_EQ(recipes_named(echo, kReplay), 0);
  EXPECT_EQ(recipes_named(echo, kRmsShortcut), 1);
  EXPECT_EQ(recipes_named(echo, kRmsReplay), 0);
  EXPECT_EQ(echo.report().replayed_after_mismatch, 0);
  EXPECT_EQ(echo.report().kept_after_mismatch, 0);
  EXPECT_GT(echo.report().counters.recipes_run, 0);
}

TEST_P(EchoOfFusedNorms, holds_no_more_for_it_than_to_call_the_norm_again) {
  Echo shortcuts(true);
  (void)train(GetParam(), shortcuts);
  Echo replays(false);
  (void)train(GetParam(), replays);
  EXPECT_EQ(recipes_named(replays, kReplay), 3);
  EXPECT_EQ(recipes_named(replays, kShortcut), 0);
  EXPECT_EQ(recipes_named(replays, kRmsReplay), 1);
  EXPECT_GT(replays.report().plan.held_bytes, 0);
  EXPECT_LE(shortcuts.report().plan.held_bytes, replays.report().plan.held_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    OrdersAndTypes, EchoOfFusedNorms,
    testing::Values(NormNetCase{"planes_float32", at::MemoryFormat::Contiguous, at::kFloat},
                    NormNetCase{"pixels_float32", at::MemoryFormat::ChannelsLast, at::kFloat},
                    NormNetCase{"planes_bfloat16", at::MemoryFormat::Contiguous, at::kBFloat16},
                    NormNetCase{"pixels_bfloat16", at::MemoryFormat::ChannelsLast, at::kBFloat16}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace noisemark::baselines::test
