#include "memopt/cuda/device_parts.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <cub/device/device_scan.cuh>

namespace noisemark::memopt::codecs {

void exclusive_sum_on_cuda(uint32_t* numbers, int64_t count) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  size_t scratch_bytes = 0;
  C10_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(nullptr, scratch_bytes, numbers, count, stream));
  // The memory is given back when the work is issued: whoever gets it next on this stream comes
  // after.
  const c10::DataPtr scratch = c10::cuda::CUDACachingAllocator::get()->allocate(scratch_bytes);
  C10_CUDA_CHECK(
      cub::DeviceScan::ExclusiveSum(scratch.get(), scratch_bytes, numbers, count, stream));
}

}  // namespace noisemark::memopt::codecs
