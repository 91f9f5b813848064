#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tests/gpu_emulator/headers/cuda_runtime_api.h"

/// Stands in the place of CUB's, which is not ours to test.
namespace cub {

struct DeviceScan {
  static int ExclusiveSum(void* scratch, size_t& scratch_bytes, uint32_t* numbers, int64_t count,
                          cudaStream_t /*stream*/) {
    scratch_bytes = 1;
    uint32_t sum = 0;
    for (int64_t i = 0; scratch != nullptr && i < count; ++i) sum += std::exchange(numbers[i], sum);
    return 0;
  }
};

}  // namespace cub
