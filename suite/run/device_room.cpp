#include "suite/run/device_room.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace noisemark::suite {
namespace {

constexpr int64_t kLittle = int64_t{64} << 20;

/// LibTorch's allocator, once it was used, and the current GPU.
struct CurrentGpu {
  c10::DeviceAllocator* allocator;
  c10::DeviceIndex index;
};

/// Empty without CUDA in this build, before a GPU was used, and where an earlier error has stopped
/// it.
std::optional<CurrentGpu> current_gpu() {
  try {
    c10::DeviceAllocator* allocator = c10::getDeviceAllocator(c10::kCUDA);
    if (!allocator->initialized()) return std::nullopt;
    return CurrentGpu{allocator, c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice().index()};
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

}  // namespace

bool is_short(const DeviceRoom& room) {
  return room.refusals > 0 || room.free_bytes < kLittle;
}

std::optional<DeviceRoom> room_on_gpu() {
  const auto gpu = current_gpu();
  if (!gpu) return std::nullopt;
  try {
    return DeviceRoom{static_cast<int64_t>(gpu->allocator->getMemoryInfo(gpu->index).first),
                      gpu->allocator->getDeviceStats(gpu->index).num_ooms};
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

void forget_refusals_of_gpu() {
  const auto gpu = current_gpu();
  if (gpu) gpu->allocator->resetAccumulatedStats(gpu->index);
}

}  // namespace noisemark::suite
