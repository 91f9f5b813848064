#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "baselines/ops.h"

namespace noisemark::baselines {
namespace {

constexpr int64_t kChannels = 32;  // channels of a head

struct Shape {
  int64_t samples, heads, height, width, memory;
};
/// Whole groups of rows and what is left over, one token, more keys than a block, no memory.
constexpr Shape kShapes[] = {
    {2, 4, 16, 16, 4}, {3, 2, 3, 5, 4}, {1, 1, 1, 1, 1}, {2, 3, 7, 9, 2}, {1, 2, 2, 3, 0}};

at::Tensor nhwc(const at::Tensor& x) {
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor qkv_of(const Shape& shape, double size = 1) {
  return nhwc(size *
              at::randn({shape.samples, 3 * shape.heads * kChannels, shape.height, shape.width}));
}

/// exp is ours to 2e-7, and every value is a weighted mean of values of about 1 to 4: a few
/// roundings of each.
void expect_near(const at::Tensor& fused, const at::Tensor& exact) {
  ASSERT_EQ(fused.sizes(), exact.sizes());
  EXPECT_EQ(fused.scalar_type(), at::kFloat);
  EXPECT_LT((fused - exact).abs().max().item<double>(), 3e-6);
}

TEST(FusedOps, linear_attention_is_that_of_plain_operators_in_float64) {
  const at::NoGradGuard no_grad;
  for (const Shape& shape : kShapes) {
    for (const double size : {1.0, 30.0}) {  // softmax of small and of large differences
      at::Tensor qkv = qkv_of(shape, size);
      qkv.narrow(1, 2 * shape.heads * kChannels, shape.heads * kChannels).div_(size);  // v
      const at::Tensor memory = at::randn({2, shape.heads, kChannels, shape.memory});
      const at::Tensor exact =
          plain_ops().linear_attention(qkv.to(at::kDouble), memory.to(at::kDouble));
      expect_near(fused_ops().linear_attention(qkv, memory), exact);
    }
  }
}

TEST(FusedOps, softmax_attention_is_that_of_plain_operators_in_float64) {
  const at::NoGradGuard no_grad;
  for (const Shape& shape : kShapes) {
    const at::Tensor qkv = qkv_of(shape);
    const at::Tensor memory = at::randn({2, shape.heads, shape.memory, kChannels});
    const at::Tensor exact =
        plain_ops().softmax_attention(qkv.to(at::kDouble), memory.to(at::kDouble));
    expect_near(fused_ops().softmax_attention(qkv, memory), exact);
  }
}

TEST(FusedOps, attention_has_the_bits_of_one_sample_in_any_batch) {
  const at::NoGradGuard no_grad;
  const at::Tensor qkv = qkv_of({5, 4, 6, 7, 4});
  const at::Tensor memory = at::randn({2, 4, kChannels, 4});
  const at::Tensor all = fused_ops().linear_attention(qkv, memory);
  for (int64_t i = 0; i < 5; ++i) {
    const at::Tensor one = nhwc(qkv.narrow(0, i, 1));
    EXPECT_TRUE(fused_ops().linear_attention(one, memory).equal(all.narrow(0, i, 1)));
  }
}

TEST(FusedOps, attention_is_left_to_plain_operators_where_the_kernels_do_not_apply) {
  const auto is_left = [](const at::Tensor& qkv, const at::Tensor& memory) {
    return fused_ops()
        .linear_attention(qkv, memory)
        .equal(plain_ops().linear_attention(qkv, memory));
  };
  const at::Tensor qkv = qkv_of({2, 2, 4, 4, 4});
  const at::Tensor memory = at::randn({2, 2, kChannels, 4});
  EXPECT_TRUE(is_left(qkv, memory)) << "gradients are on";
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(is_left(qkv, memory));
  EXPECT_TRUE(is_left(qkv.contiguous(), memory)) << "planes";
  EXPECT_TRUE(is_left(nhwc(qkv.narrow(1, 0, 96)), at::randn({2, 2, 16, 4})))
      << "another number of channels";
  EXPECT_TRUE(is_left(qkv.to(at::kDouble), memory.to(at::kDouble)));
  EXPECT_TRUE(is_left(qkv.narrow(0, 0, 0), memory)) << "nothing";
}

/// The kernels' own exponential takes NaN for a number.
TEST(FusedOps, attention_hides_no_query_key_or_value_that_is_not_finite) {
  const at::NoGradGuard no_grad;
  const at::Tensor memory = at::randn({2, 2, kChannels, 4});
  const at::Tensor turned = memory.transpose(2, 3).contiguous();
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const int64_t part : {0, 1, 2}) {
      const at::Tensor qkv = qkv_of({1, 2, 3, 3, 4});
      qkv[0][(2 * part + 1) * kChannels + 7][1][2] = bad;  // this is in the second head
      const auto sees_it = [](const at::Tensor& out) {
        const at::Tensor finite = out.isfinite();
        EXPECT_TRUE(finite.narrow(1, 0, kChannels).all().item<bool>()) << "of the first head";
        return !finite.all().item<bool>();
      };
      EXPECT_TRUE(sees_it(fused_ops().linear_attention(qkv, memory))) << bad << " " << part;
      EXPECT_TRUE(sees_it(fused_ops().softmax_attention(qkv, turned))) << bad << " " << part;
    }
  }
}

}  // namespace
}  // namespace noisemark::baselines
