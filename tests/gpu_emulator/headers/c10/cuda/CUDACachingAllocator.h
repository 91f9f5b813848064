#pragma once

#include <c10/core/CPUAllocator.h>

namespace c10::cuda::CUDACachingAllocator {

/// LibTorch has one of the same name, which the linker must not take for this.
static c10::Allocator* get() {
  return c10::GetCPUAllocator();
}

}  // namespace c10::cuda::CUDACachingAllocator
