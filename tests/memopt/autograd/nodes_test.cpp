#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "memopt/autograd/nodes.h"

namespace noisemark::memopt {
namespace {

at::Tensor leaf(at::ScalarType type) {
  return at::ones({4, 8}, type).set_requires_grad(true);
}

TEST(CastFrom, is_the_type_that_a_tensor_or_what_it_is_a_view_of_was_cast_from) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kDouble}) {
    const at::Tensor cast = leaf(type).mul(2).to(at::kFloat);
    EXPECT_EQ(cast_from(cast), type);
    EXPECT_EQ(cast_from(cast.view({2, 16})), type);
    EXPECT_EQ(cast_from(cast.narrow(0, 1, 2)), type);
    EXPECT_EQ(cast_from(leaf(type).to(at::kFloat)), type) << "of a leaf";
  }
}

TEST(CastFrom, is_empty_of_what_no_cast_made) {
  EXPECT_EQ(cast_from(leaf(at::kFloat)), std::nullopt);
  EXPECT_EQ(cast_from(leaf(at::kFloat).to(at::kFloat)), std::nullopt) << "the tensor itself";
  EXPECT_EQ(cast_from(at::ones({4}, at::kBFloat16).to(at::kFloat)), std::nullopt) << "no history";
  const at::Tensor cast = leaf(at::kBFloat16).to(at::kFloat);
  EXPECT_EQ(cast_from(cast.mul(1.1)), std::nullopt);
  EXPECT_EQ(cast_from(at::cat({cast, cast})), std::nullopt);
}

TEST(CastFrom, is_empty_of_what_was_written_since) {
  at::Tensor cast = leaf(at::kBFloat16).to(at::kFloat);
  cast.mul_(1.1);
  EXPECT_EQ(cast_from(cast), std::nullopt);
  const at::Tensor silently = leaf(at::kBFloat16).to(at::kFloat);
  {
    const at::NoGradGuard no_history;
    silently.narrow(0, 0, 1).mul_(1.1);
  }
  EXPECT_EQ(cast_from(silently), std::nullopt);
  EXPECT_EQ(cast_from(silently.narrow(0, 1, 1)), std::nullopt);
}

TEST(CastFrom, is_empty_of_a_view_as_another_type) {
  const at::Tensor wide = leaf(at::kBFloat16).to(at::kDouble);
  EXPECT_EQ(cast_from(wide), at::kBFloat16);
  EXPECT_EQ(cast_from(wide.detach().view(at::kFloat)), std::nullopt);
}

}  // namespace
}  // namespace noisemark::memopt
