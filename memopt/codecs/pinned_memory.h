#pragma once

#include <cstdint>

#include "memopt/codecs/slab_pool.h"

namespace noisemark::memopt::codecs {

/// Host memory that a device can copy from and to by itself. Null where the host does not give that
/// much, and where there is no such device.
[[nodiscard]] SlabPool::Memory pinned_memory(int64_t bytes);

}  // namespace noisemark::memopt::codecs
