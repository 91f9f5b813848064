#include "memopt/replay/sample_device.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "memopt/cuda/device_parts.h"

namespace noisemark::memopt::replay {
namespace {

/// CUDA's atomics take it so.
using Sum = unsigned long long;
static_assert(sizeof(Sum) == sizeof(uint64_t));

constexpr int kThreads = SampledElements::kMost;

/// The sample's digest, in the first thread.
__device__ uint64_t digest_of(const SampledElements& sample) {
  __shared__ Sum sum;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread == 0) sum = 0;
  __syncthreads();
  if (thread < sample.count) atomicAdd(&sum, static_cast<Sum>(share_of_digest(sample, thread)));
  __syncthreads();
  return sum;
}

__global__ void __launch_bounds__(kThreads) take_digest(SampledElements sample, uint64_t* digest) {
  const uint64_t taken = digest_of(sample);
  if (threadIdx.x == 0) *digest = taken;
}

__global__ void __launch_bounds__(kThreads)
    compare_digest(SampledElements sample, const uint64_t* digest, int32_t number, int32_t* flag) {
  const uint64_t taken = digest_of(sample);
  // Kernels of several streams may find something at once.
  if (threadIdx.x == 0 && taken != *digest) atomicCAS(flag, 0, number);
}

class CudaSampleDevice final : public SampleDevice {
 public:
  void take(const SampledElements& sample, uint64_t* digest) const override {
    take_digest<<<1, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(sample, digest);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  void compare(const SampledElements& sample, const uint64_t* digest, int32_t number,
               int32_t* flag) const override {
    compare_digest<<<1, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(sample, digest, number,
                                                                          flag);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

const SampleDevice& cuda_sample_device() {
  static const CudaSampleDevice device;
  return device;
}

}  // namespace noisemark::memopt::replay
