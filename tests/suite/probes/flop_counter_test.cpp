#include "suite/probes/flop_counter.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

namespace noisemark::suite {
namespace {

template <typename Work>
int64_t count(Work work) {
  const FlopCounter counter;
  work();
  return counter.total();
}

at::Tensor leaf(at::IntArrayRef shape) {
  return at::randn(shape).set_requires_grad(true);
}

TEST(FlopCounter, counts_two_per_multiply_add_of_a_matrix_product) {
  const at::Tensor a = at::randn({3, 5}), b = at::randn({5, 7}), bias = at::randn({7});
  EXPECT_EQ(count([&] { at::mm(a, b); }), 2 * 3 * 5 * 7);
  EXPECT_EQ(count([&] { at::addmm(bias, a, b); }), 2 * 3 * 5 * 7);
  EXPECT_EQ(count([&] { at::mv(a, at::randn({5})); }), 2 * 3 * 5);
  const at::Tensor left = at::randn({2, 3, 5}), right = at::randn({2, 5, 7});
  EXPECT_EQ(count([&] { at::bmm(left, right); }), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(count([&] { at::baddbmm(at::randn({2, 3, 7}), left, right); }), 2 * 2 * 3 * 5 * 7);
}

TEST(FlopCounter, counts_composites_by_the_products_they_are_made_of) {
  const at::Tensor x = at::randn({2, 3, 5}), weight = at::randn({7, 5}), bias = at::randn({7});
  EXPECT_EQ(count([&] { at::linear(x, weight, bias); }), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(count([&] { at::linear(x, weight); }), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(count([&] { at::matmul(x, at::randn({2, 5, 4})); }), 2 * 2 * 3 * 5 * 4);
  EXPECT_EQ(count([&] { at::einsum("bij,kj->bik", {x, weight}); }), 2 * 2 * 3 * 5 * 7);
}

TEST(FlopCounter, counts_a_convolution_once_however_it_is_carried_out) {
  // Out: (9 + 2 - 3) / 2 + 1 = 5 rows, (8 + 2 - 3) / 2 + 1 = 4 columns.
  const at::Tensor x = at::randn({2, 4, 9, 8}), weight = at::randn({6, 4, 3, 3});
  constexpr int64_t kExpected = 2 * 2 * (5 * 4) * 6 * 4 * 9;
  EXPECT_EQ(count([&] { at::conv2d(x, weight, {}, 2, 1); }), kExpected);
  // Double precision takes another way through ATen.
  EXPECT_EQ(count([&] { at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), {}, 2, 1); }),
            kExpected);
}

TEST(FlopCounter, divides_a_grouped_convolution_by_its_groups) {
  const at::Tensor x = at::randn({1, 4, 8, 8}), weight = at::randn({6, 2, 3, 3});
  EXPECT_EQ(count([&] { at::conv2d(x, weight, {}, 1, 1, 1, 2); }), 2 * (8 * 8) * 6 * 2 * 9);
  // Dilation 2 reaches over 5 pixels: 4 x 4 positions.
  EXPECT_EQ(count([&] {
              at::conv2d(x, weight, {}, at::IntArrayRef{1}, at::IntArrayRef{0}, at::IntArrayRef{2},
                         2);
            }),
            2 * (4 * 4) * 6 * 2 * 9);
}

TEST(FlopCounter, counts_a_transposed_convolution_at_its_input) {
  const at::Tensor x = at::randn({2, 4, 5, 5}), weight = at::randn({4, 3, 2, 2});
  EXPECT_EQ(count([&] { at::conv_transpose2d(x, weight, {}, 2); }), 2 * 2 * (5 * 5) * 4 * 3 * 4);
}

TEST(FlopCounter, counts_both_gradients_of_a_convolution_and_only_those_wanted) {
  for (const int64_t groups : {1, 2}) {
    const at::Tensor weight = leaf({6, 4 / groups, 3, 3});
    const int64_t forward = 2 * (8 * 8) * 6 * (4 / groups) * 9;
    const at::Tensor with_input = at::conv2d(leaf({1, 4, 8, 8}), weight, {}, 1, 1, 1, groups).sum();
    EXPECT_EQ(count([&] { with_input.backward(); }), 2 * forward);
    const at::Tensor weight_alone =
        at::conv2d(at::randn({1, 4, 8, 8}), weight, {}, 1, 1, 1, groups).sum();
    EXPECT_EQ(count([&] { weight_alone.backward(); }), forward);
  }
}

TEST(FlopCounter, counts_both_gradients_of_a_transposed_convolution) {
  const at::Tensor x = leaf({2, 4, 5, 5}), weight = leaf({4, 3, 2, 2});
  const at::Tensor loss = at::conv_transpose2d(x, weight, {}, 2).sum();
  EXPECT_EQ(count([&] { loss.backward(); }), 2 * 2 * 2 * (5 * 5) * 4 * 3 * 4);
}

TEST(FlopCounter, counts_the_two_products_of_attention_and_the_four_of_its_gradient) {
  // batch 2, heads 3, 16 queries, 16 keys, depth 8
  const at::Tensor q = leaf({2, 3, 16, 8}), k = leaf({2, 3, 16, 8}), v = leaf({2, 3, 16, 8});
  constexpr int64_t kProduct = 2 * (2 * 3) * 16 * 16 * 8;
  const FlopCounter counter;
  const at::Tensor out = at::scaled_dot_product_attention(q, k, v);
  ASSERT_EQ(counter.by_operator().count("aten::_scaled_dot_product_flash_attention_for_cpu"), 1U);
  EXPECT_EQ(counter.total(), 2 * kProduct);
  out.sum().backward();
  EXPECT_EQ(counter.total(), (2 + 4) * kProduct);
}

TEST(FlopCounter, counts_attention_by_its_products_when_it_is_not_fused) {
  const at::Tensor q = at::randn({2, 3, 16, 8}), k = at::randn({2, 3, 10, 8}),
                   v = at::randn({2, 3, 10, 8});
  EXPECT_EQ(count([&] { at::_scaled_dot_product_attention_math(q, k, v); }),
            2 * 2 * (2 * 3) * 16 * 10 * 8);
}

TEST(FlopCounter, splits_by_phase_and_by_operator) {
  const at::Tensor x = at::randn({3, 5}), weight = leaf({5, 7});
  FlopCounter counter;
  counter.on_phase_begin(Phase::kForward);
  const at::Tensor loss = at::mm(x, weight).sum();
  counter.on_phase_begin(Phase::kBackward);
  loss.backward();
  EXPECT_EQ(counter.of(Phase::kForward), 2 * 3 * 5 * 7);
  EXPECT_EQ(counter.of(Phase::kBackward), 2 * 3 * 5 * 7);
  EXPECT_EQ(counter.by_operator().at("aten::mm"), counter.total());
}

TEST(FlopCounter, counts_nothing_else) {
  const at::Tensor x = at::randn({4, 4});
  EXPECT_EQ(count([&] { (x + x).mul(2).sum(); }), 0);
}

TEST(FlopCounter, is_alone) {
  const FlopCounter counter;
  EXPECT_THROW(FlopCounter(), c10::Error);
}

}  // namespace
}  // namespace noisemark::suite
