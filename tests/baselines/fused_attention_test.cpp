#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "baselines/fused_attention.h"
#include "baselines/ops.h"
#include "tests/baselines/compare.h"

namespace noisemark::baselines {
namespace {

struct Case {
  int64_t samples, heads, width, tokens, height, breadth;
};

/// The networks' own, widths at and off the kernels' vector lengths, more than one tile of learned
/// tokens, fewer and more pixels than a tile.
const std::vector<Case> kCases = {
    {2, 4, 32, 4, 32, 32}, {3, 4, 32, 4, 8, 8},   {2, 2, 8, 1, 3, 5},  {1, 1, 1, 4, 7, 9},
    {1, 3, 17, 70, 9, 11}, {2, 2, 64, 4, 16, 16}, {2, 1, 33, 5, 1, 1},
};

at::Tensor attend(const Ops& ops, const Inputs& in) {
  return ops.linear_attention(in[0], in[1]);
}

Inputs inputs_of(const Case& c, at::ScalarType type, Order order) {
  const at::Tensor qkv = at::randn({c.samples, 3 * c.heads * c.width, c.height, c.breadth}) * 2;
  return {in_order(qkv.to(type), order), at::randn({2, c.heads, c.width, c.tokens})};
}

TEST(FusedAttention, equals_plain_in_float64) {
  at::manual_seed(3);
  for (const Case& c : kCases) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      for (const Order order : {Order::kPlanes, Order::kPixels, Order::kStrided}) {
        SCOPED_TRACE(std::to_string(c.width) + " channels, order " +
                     std::to_string(static_cast<int>(order)) + ", " + c10::toString(type));
        expect_equals_reference(attend, inputs_of(c, type, order), order);
      }
    }
  }
}

TEST(FusedAttention, stays_exact_when_keys_and_queries_are_far_from_zero) {
  at::manual_seed(3);
  const Inputs inputs = {at::randn({1, 3 * 32, 8, 8}) * 30 + 200,
                         at::randn({2, 1, 32, 4}) * 30 + 200};
  const at::Tensor exact = attend(plain_ops(), upcast(inputs));
  const at::Tensor y = attend(fused_ops(), inputs);
  EXPECT_FALSE(y.isnan().any().item<bool>());
  EXPECT_LE(error(y, exact), 1e-4);  // exponents of 200 carry an absolute error of 2e-5
}

TEST(FusedAttention, gives_the_same_bits_for_every_thread_count) {
  const Case c{3, 4, 32, 4, 16, 16};
  const int threads = at::get_num_threads();
  for (const Order order : {Order::kPlanes, Order::kPixels}) {
    const Inputs inputs = inputs_of(c, at::kFloat, order);
    const at::Tensor dy = at::randn({3, 128, 16, 16});
    at::set_num_threads(1);
    const Outcome one = outcome(fused_ops(), attend, inputs, dy);
    at::set_num_threads(3);
    const Outcome three = outcome(fused_ops(), attend, inputs, dy);
    EXPECT_TRUE(at::equal(one.y, three.y));
    EXPECT_TRUE(at::equal(one.grads[0], three.grads[0]));
    EXPECT_TRUE(at::equal(one.grads[1], three.grads[1]));
  }
  at::set_num_threads(threads);
}

TEST(FusedAttention, non_finite_queries_keys_and_values_are_not_hidden) {
  for (const Order order : {Order::kPlanes, Order::kPixels}) {
    for (int64_t part = 0; part < 3; ++part) {
      for (const float value :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        at::Tensor qkv = at::randn({1, 3 * 16, 4, 4});
        qkv[0][16 * part + 5][2][1] = value;
        const at::Tensor y =
            fused_ops().linear_attention(in_order(qkv, order), at::randn({2, 1, 16, 4}));
        EXPECT_FALSE(y.isfinite().all().item<bool>()) << "part " << part << ", " << value;
      }
    }
  }
}

TEST(FusedAttention, falls_back_to_plain_for_wide_heads_and_other_types) {
  const at::Tensor wide = at::randn({1, 3 * 65, 4, 4});
  const at::Tensor wide_memory = at::randn({2, 1, 65, 4});
  EXPECT_FALSE(linear_attention_takes(wide, wide_memory));
  EXPECT_TRUE(at::equal(fused_ops().linear_attention(wide, wide_memory),
                        plain_ops().linear_attention(wide, wide_memory)));
  EXPECT_FALSE(linear_attention_takes(wide.to(at::kDouble), at::randn({2, 1, 8, 4})));
}

TEST(FusedAttention, refuses_channels_that_are_not_queries_keys_and_values) {
  EXPECT_THROW(
      (void)fused_ops().linear_attention(at::randn({1, 50, 4, 4}), at::randn({2, 1, 16, 4})),
      c10::Error);
}

}  // namespace
}  // namespace noisemark::baselines
