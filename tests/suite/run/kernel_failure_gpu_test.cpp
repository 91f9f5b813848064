#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <exception>

#include "suite/run/passes/failure.h"
#include "tests/gpu.h"

// A kernel that fails after the host has gone on. A program of its own: nothing in a process can
// use the GPU after that.
namespace noisemark::suite {
namespace {

TEST(GpuFailure, of_a_kernel_is_noticed_named_and_no_result) {
  const at::Tensor values = at::zeros({16}, at::device(kGpu));
  const at::Tensor beyond = at::full({64}, 1 << 20, at::device(kGpu).dtype(at::kLong));
  try {
    const at::Tensor picked = at::index_select(values, 0, beyond);
    (void)picked.sum().item<float>();
    FAIL() << "a read beyond the end went unnoticed";
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    EXPECT_EQ(failure.code, ExitCode::kInternal);
    EXPECT_NE(failure.reason.find("a kernel failed"), std::string::npos) << failure.reason;
  }
}

}  // namespace
}  // namespace noisemark::suite
