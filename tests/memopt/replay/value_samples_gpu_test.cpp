#include "memopt/replay/value_samples.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode.h"
#include "tests/gpu.h"

// A GPU must compare what the CPU would, and without the host in between.
namespace noisemark::memopt {
namespace {

uint64_t digest_on_gpu(const at::Tensor& tensor) {
  const at::Tensor digest = at::empty({1}, at::device(kGpu).dtype(at::kLong));
  find_sample_device(at::kCUDA)->take(
      sample_of(tensor), reinterpret_cast<uint64_t*>(digest.mutable_data_ptr<int64_t>()));
  return static_cast<uint64_t>(digest.item<int64_t>());
}

uint64_t digest_on_cpu(const at::Tensor& tensor) {
  uint64_t digest = 0;
  find_sample_device(at::kCPU)->take(sample_of(tensor), &digest);
  return digest;
}

TEST(GpuValueSamples, have_the_digest_that_a_cpu_has) {
  for (const at::ScalarType type :
       {at::kBool, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kLong}) {
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{}, {0}, {1}, {63}, {64}, {65}, {3, 5, 7}, {32, 1000}}) {
      const at::Tensor x = (at::randn(shape) * 3).to(type);
      EXPECT_EQ(digest_on_gpu(x.to(kGpu)), digest_on_cpu(x)) << type << ' ' << x.sizes();
    }
  }
  const at::Tensor x = at::randn({40, 30});
  EXPECT_EQ(digest_on_gpu(x.to(kGpu).narrow(1, 3, 7)), digest_on_cpu(x.narrow(1, 3, 7)));
}

TEST(GpuValueSamples, leave_the_number_of_the_first_slot_that_differs) {
  const auto doubt = std::make_shared<DeviceDoubt>(kGpu, *find_sample_device(at::kCUDA));
  ValueSamples samples(3, doubt);
  const at::Tensor x = at::randn({1000}).to(kGpu);
  samples.take(0, x);
  samples.take(2, x);
  EXPECT_TRUE(samples.fits(0, x.clone()));
  EXPECT_TRUE(samples.fits(2, x.clone()));
  EXPECT_EQ(doubt->ask()->wait(), DeviceAnswer::State::kHolds);
  EXPECT_TRUE(samples.fits(2, x + 1));
  EXPECT_TRUE(samples.fits(0, x + 1));
  EXPECT_EQ(doubt->ask()->wait(), DeviceAnswer::State::kLost);
  EXPECT_EQ(ValueSamples::slot_of(doubt->take()), 2);
  EXPECT_EQ(doubt->take(), 0);
}

at::Tensor small_parameter(at::IntArrayRef sizes) {
  return at::randn(sizes).mul_(0.2).to(kGpu).set_requires_grad(true);
}

/// Only their values show which of two tensors is read.
TEST(GpuValueSamples, find_a_change_that_only_values_show) {
  const at::Tensor x = at::randn({16, 32}).to(kGpu);
  const at::Tensor a = small_parameter({32, 32});
  const at::Tensor b = small_parameter({32, 32});
  const at::Tensor one = at::randn({32}).to(kGpu);
  const at::Tensor other = at::randn({32}).to(kGpu);
  const std::unique_ptr<Mode> mode = make_mode("echo");
  ModelView view;
  view.parameters = {{"a.weight", a}, {"b.weight", b}};
  mode->attach(view);
  const auto step = [&](int64_t number, bool changed) {
    mode->begin_step(number);
    at::Tensor loss;
    {
      const SavedTensorScope scope(*mode);
      const at::Tensor h = at::linear(x, a);
      const at::Tensor y = at::silu(h);
      const at::Tensor both = y * one + y * other;
      loss = at::linear(both * at::silu(h + (changed ? other : one)), b).square().sum();
    }
    loss.backward();
    mode->end_step();
  };
  for (int64_t number = 1; number < 8; ++number) {
    step(number, false);
    ASSERT_NO_THROW(mode->check_step()) << number;
  }
  step(8, true);
  try {
    mode->check_step();
    FAIL() << "a gradient of the old path was let by";
  } catch (const c10::Error& error) {
    const std::string words = error.what_without_backtrace();
    EXPECT_NE(words.find("the result of aten::add"), std::string::npos) << words;
  }
  step(9, true);
  EXPECT_NO_THROW(mode->check_step()) << "all that could be wrong is kept from then on";
}

}  // namespace
}  // namespace noisemark::memopt
