#include "suite/probes/wide_operators.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "suite/train/precision.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

struct Seen {
  int64_t operators = 0;
  std::vector<reports::WideOperator> wide;
};

Seen under_bf16(const std::function<void()>& work) {
  const WideOperators watch(at::kCPU, at::kBFloat16);
  {
    const AutocastGuard autocast(parse_precision("bf16", at::kCPU), at::kCPU);
    work();
  }
  return {watch.operators(), watch.wide()};
}

std::vector<std::string> names_of(const Seen& seen) {
  std::vector<std::string> names;
  for (const reports::WideOperator& one : seen.wide) names.push_back(one.name);
  return names;
}

// The lists of autocast (ATen/autocast_mode.h) for the CPU: products in bfloat16, losses in
// float32, everything else in the type that it is given.
TEST(WideOperators, names_what_autocast_keeps_in_float32_and_not_what_it_narrows) {
  const at::Tensor a = at::randn({4, 8}), b = at::randn({8, 2});
  const Seen seen = under_bf16([&] {
    const at::Tensor narrow = at::mm(a, b);
    (void)at::mse_loss(narrow, at::zeros({4, 2}));
  });
  const std::vector<std::string> names = names_of(seen);
  EXPECT_EQ(std::count(names.begin(), names.end(), "aten::mm"), 0);
  ASSERT_EQ(std::count(names.begin(), names.end(), "aten::mse_loss"), 1);
  const auto loss = std::find_if(seen.wide.begin(), seen.wide.end(),
                                 [](const auto& one) { return one.name == "aten::mse_loss"; });
  EXPECT_EQ(loss->calls, 1);
  EXPECT_EQ(loss->result_bytes, 4) << "a number in float32";
  EXPECT_GT(seen.operators, static_cast<int64_t>(seen.wide.size())) << "mm counts too";
}

TEST(WideOperators, sums_calls_and_bytes_by_operator_the_most_bytes_first) {
  const at::Tensor x = at::randn({16, 16}), small = at::randn({3});
  const Seen seen = under_bf16([&] {
    (void)at::silu(x);
    (void)at::silu(x);
    (void)at::relu(small);
  });
  ASSERT_EQ(names_of(seen), (std::vector<std::string>{"aten::silu", "aten::relu"}));
  EXPECT_EQ(seen.wide[0].calls, 2);
  EXPECT_EQ(seen.wide[0].result_bytes, 2 * 16 * 16 * 4);
  EXPECT_EQ(seen.wide[1].result_bytes, 3 * 4);
  EXPECT_EQ(seen.operators, 3);
}

TEST(WideOperators, leaves_views_operators_in_place_and_raw_memory_out) {
  const at::Tensor x = at::randn({4, 4});
  const Seen seen = under_bf16([&] {
    (void)x.view({16});
    (void)x.transpose(0, 1);
    (void)at::empty({5});
    at::Tensor y = x;
    y.mul_(2);
  });
  EXPECT_EQ(names_of(seen), std::vector<std::string>{});
  EXPECT_EQ(seen.operators, 0);
}

TEST(WideOperators, looks_at_nothing_outside_autocast) {
  const WideOperators watch(at::kCPU, at::kBFloat16);
  (void)at::silu(at::randn({4}));
  EXPECT_EQ(watch.operators(), 0);
  EXPECT_TRUE(watch.wide().empty());
}

TEST(WideOperators, sees_the_forward_pass_of_a_training_step_and_not_its_backward) {
  const test::TinySession session(test::tiny_definition(), "bf16");
  (void)session.trainer->step();
  const WideOperators watch(at::kCPU, at::kBFloat16);
  (void)session.trainer->step();
  const std::vector<reports::WideOperator> wide = watch.wide();
  ASSERT_FALSE(wide.empty());
  EXPECT_GT(watch.operators(), static_cast<int64_t>(wide.size()));
  for (const reports::WideOperator& one : wide) {
    EXPECT_EQ(one.name.find("backward"), std::string::npos) << one.name;
    EXPECT_NE(one.name, "aten::convolution") << "autocast narrows its inputs";
    EXPECT_NE(one.name, "aten::_fused_adam_");
  }
}

}  // namespace
}  // namespace noisemark::suite
