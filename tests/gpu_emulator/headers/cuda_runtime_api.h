#pragma once

#include <cstddef>
#include <cstring>

/// This header has as much of CUDA's runtime as the hosts of our kernels call; memory is the CPU's,
/// and everything is done when a call returns.
using cudaError_t = int;
using cudaStream_t = void*;

inline cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t /*stream*/) {
  std::memset(memory, value, bytes);
  return 0;
}
