#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "baselines/ops.h"

namespace noisemark::baselines {
namespace {

TEST(PlainOps, group_norm_act_is_group_norm_then_the_activation_to_the_bit) {
  const at::Tensor x = at::randn({2, 8, 3, 5});
  const at::Tensor weight = at::randn({8});
  const at::Tensor bias = at::randn({8});
  const at::Tensor normalized = plain_ops().group_norm(x, 4, weight, bias, 1e-5);
  EXPECT_TRUE(at::equal(plain_ops().group_norm_act(x, 4, weight, bias, 1e-5, Activation::kSilu),
                        at::silu(normalized)));
  EXPECT_TRUE(at::equal(plain_ops().group_norm_act(x, 4, weight, bias, 1e-5, Activation::kRelu),
                        at::relu(normalized)));
}

TEST(PlainOps, group_norm_gives_each_group_mean_zero_and_variance_one) {
  const at::Tensor x = at::randn({3, 6, 4, 4}, at::kDouble) * 7 + 100;
  const at::Tensor y =
      plain_ops().group_norm(x, 2, at::ones({6}, at::kDouble), at::zeros({6}, at::kDouble), 0);
  const at::Tensor groups = y.reshape({3, 2, 48});
  EXPECT_LT(groups.mean(2).abs().max().item<double>(), 1e-12);
  EXPECT_LT((groups.square().mean(2) - 1).abs().max().item<double>(), 1e-12);
}

TEST(PlainOps, rms_norm_gives_every_pixel_the_length_of_g) {
  const at::Tensor x = at::randn({2, 9, 4, 4}, at::kDouble);
  const at::Tensor y = plain_ops().rms_norm(x, at::ones({1, 9, 1, 1}, at::kDouble));
  EXPECT_LT((y.square().sum(1) - 9).abs().max().item<double>(), 1e-12);
  EXPECT_EQ(plain_ops()
                .rms_norm(at::zeros({1, 4, 2, 2}), at::ones({1, 4, 1, 1}))
                .abs()
                .max()
                .item<double>(),
            0);
}

TEST(PlainOps, film_scales_by_one_more_than_scale_then_shifts) {
  const at::Tensor x = at::randn({2, 4, 3, 3}, at::kDouble);
  const at::Tensor g = at::randn({1, 4, 1, 1}, at::kDouble);
  const at::Tensor scale = at::randn({2, 4, 1, 1}, at::kDouble);
  const at::Tensor shift = at::randn({2, 4, 1, 1}, at::kDouble);
  const at::Tensor h = plain_ops().rms_norm(x, g);
  EXPECT_TRUE(at::equal(plain_ops().rms_norm_film_silu(x, g, {}, {}), at::silu(h)));
  EXPECT_TRUE(at::equal(plain_ops().rms_norm_film_silu(x, g, scale, shift),
                        at::silu(h * (scale + 1) + shift)));
}

TEST(PlainOps, rms_norm_of_bfloat16_is_float32_as_in_the_peer) {
  // bfloat16 times the float32 parameter g promotes; group norm keeps bfloat16.
  const at::Tensor x = at::randn({2, 8, 4, 4}).to(at::kBFloat16);
  EXPECT_EQ(plain_ops().rms_norm(x, at::ones({1, 8, 1, 1})).scalar_type(), at::kFloat);
  EXPECT_EQ(plain_ops().group_norm(x, 2, at::ones({8}), at::zeros({8}), 1e-5).scalar_type(),
            at::kBFloat16);
}

}  // namespace
}  // namespace noisemark::baselines
