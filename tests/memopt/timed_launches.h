#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "memopt/device_parts.h"

/// How long a kernel takes on a device, and the device's copy bandwidth to hold it against.
namespace noisemark::memopt::test {

/// Issued between two marks. A GPU waits for the first of them until the host has issued it: alone,
/// it would be timed with the host's work. A CPU is the host.
inline int launches_on(c10::Device device) {
  return device.is_cpu() ? 1 : 20;
}

/// Seconds that `work` takes on the device.
inline double seconds_of(c10::Device device, DeviceClock& clock,
                         const std::function<void()>& work) {
  const int launches = launches_on(device);
  clock.clear();
  const DeviceClock::Mark begin = clock.mark();
  for (int i = 0; i < launches; ++i) work();
  const DeviceClock::Mark end = clock.mark();
  clock.synchronize();
  return clock.seconds_between(begin, end) / launches;
}

/// Bytes read and written in a second: the median of many copies, too large for any cache.
inline double copy_bandwidth(c10::Device device) {
  constexpr int64_t kElements = int64_t{1} << 27;
  constexpr int kWarm = 5;
  const std::unique_ptr<DeviceClock> clock = make_device_clock(device);
  const at::Tensor from = at::rand({kElements}, at::device(device));
  const at::Tensor to = at::empty_like(from);
  for (int i = 0; i < kWarm; ++i) to.copy_(from);
  std::array<double, 21> seconds{};
  for (double& one : seconds) one = seconds_of(device, *clock, [&] { to.copy_(from); });
  const auto median = seconds.begin() + seconds.size() / 2;
  std::nth_element(seconds.begin(), median, seconds.end());
  return 2 * static_cast<double>(from.nbytes()) / *median;
}

}  // namespace noisemark::memopt::test
