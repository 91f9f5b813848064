#include "suite/run/device_room.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace noisemark::suite {
namespace {

constexpr int64_t kLittle = int64_t{64} << 20;

}  // namespace

bool is_short(const DeviceRoom& room) {
  return room.refusals > 0 || room.free_bytes < kLittle;
}

std::optional<DeviceRoom> room_on_gpu() {
  try {
    c10::DeviceAllocator* allocator = c10::getDeviceAllocator(c10::kCUDA);
    if (!allocator->initialized()) return std::nullopt;
    const c10::DeviceIndex index = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice().index();
    return DeviceRoom{static_cast<int64_t>(allocator->getMemoryInfo(index).first),
                      allocator->getDeviceStats(index).num_ooms};
  } catch (const c10::Error&) {
    return std::nullopt;  // no CUDA in this build, or a GPU that an earlier error has stopped
  }
}

}  // namespace noisemark::suite
