#include "memopt/replay/value_sample.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace noisemark::memopt {
namespace {

TEST(ValueSample, fits_the_same_values_in_another_memory) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{}, {0}, {1}, {63}, {64}, {65}, {3, 5, 7}, {2, 0, 4}}) {
    const at::Tensor x = at::randn(shape);
    EXPECT_TRUE(ValueSample(x).fits(x.clone())) << x.sizes();
  }
}

TEST(ValueSample, sees_every_element_of_a_small_tensor) {
  const at::Tensor x = at::randn({8, 8});
  const ValueSample sample(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const at::Tensor other = x.clone();
    other.view(-1).select(0, i).add_(1);
    EXPECT_FALSE(sample.fits(other)) << i;
  }
}

/// The positions leave no gap above a twentieth of the tensor: 64 multiples of the golden ratio are
/// less than a fortieth apart.
TEST(ValueSample, sees_any_range_of_a_twentieth_of_a_large_tensor) {
  const at::Tensor x = at::randn({32, 4, 25, 25});
  const ValueSample sample(x);
  const int64_t length = x.numel() / 20;
  for (int64_t begin = 0; begin + length <= x.numel(); begin += length / 3) {
    const at::Tensor other = x.clone();
    other.view(-1).narrow(0, begin, length).mul_(1.5);
    EXPECT_FALSE(sample.fits(other)) << begin;
  }
}

TEST(ValueSample, sees_a_channel_of_an_image_whatever_its_size) {
  for (const int64_t size : {16, 32, 33, 64}) {
    const at::Tensor x = at::randn({8, 4, size, size});
    const ValueSample sample(x);
    for (int64_t channel = 0; channel < 4; ++channel) {
      const at::Tensor other = x.clone();
      other.select(1, channel).add_(1);
      EXPECT_FALSE(sample.fits(other)) << size << ' ' << channel;
    }
  }
}

TEST(ValueSample, compares_bits) {
  const at::Tensor nan = at::full({4}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(ValueSample(nan).fits(nan.clone()));
  EXPECT_FALSE(ValueSample(at::zeros({4})).fits(-at::zeros({4})));
  EXPECT_TRUE(ValueSample(at::ones({4}, at::kBool)).fits(at::ones({4}, at::kBool)));
}

TEST(ValueSample, follows_strides) {
  const at::Tensor x = at::randn({40, 30});
  const at::Tensor copy = x.clone();
  EXPECT_TRUE(ValueSample(x.t()).fits(copy.t()));
  EXPECT_TRUE(ValueSample(x.narrow(1, 3, 7)).fits(copy.narrow(1, 3, 7)));
  const at::Tensor row = at::randn({1, 30});
  EXPECT_TRUE(ValueSample(row.expand({40, 30})).fits(row.clone().expand({40, 30})));
  copy.select(1, 5).add_(1);
  EXPECT_FALSE(ValueSample(x.t()).fits(copy.t()));
  EXPECT_FALSE(ValueSample(x.narrow(1, 3, 7)).fits(copy.narrow(1, 3, 7)));
  EXPECT_TRUE(ValueSample(x.narrow(1, 6, 7)).fits(copy.narrow(1, 6, 7)))
      << "nothing but the view is looked at";
  EXPECT_FALSE(ValueSample(row.expand({40, 30})).fits((row + 1).expand({40, 30})));
}

}  // namespace
}  // namespace noisemark::memopt
