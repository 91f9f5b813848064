#pragma once

#include <c10/core/Device.h>

#include "memopt/allocation_source.h"

namespace noisemark::memopt {

/// Allocations of LibTorch's caching allocator on one GPU, in requested bytes, by its trace
/// tracker. That cannot be detached, so a source lives as long as the process; without a listener
/// it keeps only its table of live blocks. A block is released when LibTorch gives it back, as in
/// its own `allocated_bytes`, though another stream may still be using it.
[[nodiscard]] AllocationSource& cuda_allocation_source(c10::Device device);

}  // namespace noisemark::memopt
