#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <vector>

#include "memopt/replay/value_samples.h"

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

// A CPU in the place of a device whose findings the host does not see.

constexpr size_t kSlots = 4;

std::shared_ptr<DeviceDoubt> doubt_of_a_cpu() {
  return std::make_shared<DeviceDoubt>(at::kCPU, *find_sample_device(at::kCPU));
}

TEST(ValueSamples, of_a_cpu_are_compared_at_once) {
  ValueSamples samples(kSlots, nullptr);
  const at::Tensor x = at::randn({5, 7});
  samples.take(2, x);
  EXPECT_TRUE(samples.fits(2, x.clone()));
  EXPECT_FALSE(samples.fits(2, x + 1));
  EXPECT_TRUE(samples.fits(1, x)) << "of this slot nothing was taken";
}

TEST(ValueSamples, that_a_device_compares_say_nothing_until_it_is_asked) {
  const auto doubt = doubt_of_a_cpu();
  ValueSamples samples(kSlots, doubt);
  const at::Tensor x = at::randn({5, 7});
  samples.take(2, x);
  EXPECT_TRUE(samples.fits(2, x.clone()));
  EXPECT_EQ(doubt->ask()->wait(), DeviceAnswer::State::kHolds);
  EXPECT_EQ(doubt->take(), 0);
  EXPECT_TRUE(samples.fits(2, x + 1));
  EXPECT_EQ(doubt->ask()->wait(), DeviceAnswer::State::kLost);
  const int32_t number = doubt->take();
  ASSERT_NE(number, 0);
  EXPECT_EQ(ValueSamples::slot_of(number), 2);
  EXPECT_EQ(doubt->take(), 0) << "what was taken is gone";
}

TEST(ValueSamples, keep_the_first_slot_that_differed_whatever_follows) {
  const auto doubt = doubt_of_a_cpu();
  ValueSamples samples(kSlots, doubt);
  const at::Tensor x = at::randn({5, 7});
  for (const SlotId slot : {0, 1, 3}) samples.take(slot, x);
  EXPECT_TRUE(samples.fits(3, x + 1));
  EXPECT_TRUE(samples.fits(0, x + 1));
  EXPECT_TRUE(samples.fits(1, x));
  EXPECT_EQ(ValueSamples::slot_of(doubt->take()), 3);
}

TEST(ValueSamples, of_two_passes_have_one_doubt) {
  const auto doubt = doubt_of_a_cpu();
  const at::Tensor x = at::randn({5, 7});
  ValueSamples first(kSlots, doubt);
  ValueSamples second(kSlots, doubt);
  first.take(0, x);
  second.take(0, x + 1);
  EXPECT_TRUE(first.fits(0, x));
  EXPECT_TRUE(second.fits(0, x + 1));
  EXPECT_EQ(doubt->take(), 0);
  EXPECT_TRUE(first.fits(0, x + 1));
  EXPECT_EQ(ValueSamples::slot_of(doubt->take()), 0);
}

/// Sums in another order, as a GPU takes them, are the same; another element in another's place is
/// not.
TEST(ValueSamples, have_a_digest_that_knows_where_an_element_was) {
  const at::Tensor x = at::randn({2, 3});
  const ValueSample sample(x);
  EXPECT_FALSE(sample.fits(x.flip(0)));
  EXPECT_FALSE(ValueSample(at::ones({4})).fits(at::ones({4}) * 2));
  replay::SampledElements elements = sample_of(x);
  uint64_t backwards = 0;
  for (int32_t i = elements.count - 1; i >= 0; --i) {
    backwards += replay::share_of_digest(elements, i);
  }
  uint64_t digest = 0;
  find_sample_device(at::kCPU)->take(elements, &digest);
  EXPECT_EQ(digest, backwards);
}

TEST(ValueSamples, look_at_every_byte_of_an_element) {
  for (const at::ScalarType type : {at::kBool, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble,
                                    at::kLong, at::kComplexDouble}) {
    const at::Tensor x = at::ones({3}, type);
    const ValueSample sample(x);
    ASSERT_TRUE(sample.fits(x.clone()));
    for (int64_t byte = 0; byte < x.element_size(); ++byte) {
      const at::Tensor other = x.clone();
      static_cast<unsigned char*>(other.mutable_data_ptr())[x.element_size() + byte] ^= 0x10;
      EXPECT_FALSE(sample.fits(other)) << type << ", byte " << byte;
    }
  }
}

}  // namespace
}  // namespace noisemark::memopt
