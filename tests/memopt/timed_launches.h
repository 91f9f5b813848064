#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "memopt/device/device_clock.h"

/// Measures a kernel's time on a device, and the device's copy bandwidth to hold it against.
namespace noisemark::memopt::test {

/// The size that a GPU's tensor must have for its figure to be one of DRAM: several times the L2 of
/// an H100 (50 MiB) or an H200 (60 MiB), so that a launch finds little there of what the one before
/// it read or wrote.
constexpr int64_t kMoreBytesThanCachesHold = int64_t{256} << 20;

/// Returns the number of launches between two marks. On a GPU these take about as long as a small
/// kernel: by many launches, little.
inline int launches_on(c10::Device device) {
  return device.is_cpu() ? 1 : 20;
}

/// Seconds that `work` takes on the device. A GPU begins when the host has issued all launches: it
/// takes longer to launch a small kernel than to run it. Work that waits for the device in between
/// would wait until the hold ends by itself, and be timed with what the host does from there on.
inline double seconds_of(c10::Device device, DeviceClock& clock,
                         const std::function<void()>& work) {
  constexpr double kLongestHold_s = 0.05;
  const int launches = launches_on(device);
  clock.clear();
  clock.hold(kLongestHold_s);
  const DeviceClock::Mark begin = clock.mark();
  for (int i = 0; i < launches; ++i) work();
  const DeviceClock::Mark end = clock.mark();
  clock.release();
  clock.synchronize();
  return clock.seconds_between(begin, end) / launches;
}

/// The first launch loads kernels, and the first that lie in a queue together take all the memory
/// that they need at once: either may wait for the device.
inline void prepare(c10::Device device, DeviceClock& clock, const std::function<void()>& work) {
  work();
  static_cast<void>(seconds_of(device, clock, work));
}

/// Bytes that a GPU reads and writes in a second: the median of many copies, too large for any
/// cache.
inline double copy_bandwidth(c10::Device gpu) {
  constexpr int64_t kElements = int64_t{1} << 27;
  // A GPU that was idle raises its clocks only after a while of work, and a bandwidth from before
  // would flatter what is held against it.
  constexpr double kWarmUp_s = 0.3;
  const std::unique_ptr<DeviceClock> clock = make_device_clock(gpu);
  const at::Tensor from = at::rand({kElements}, at::device(gpu));
  const at::Tensor to = at::empty_like(from);
  const auto seconds_of_copy = [&] { return seconds_of(gpu, *clock, [&] { to.copy_(from); }); };
  double worked_s = 0;
  while (worked_s < kWarmUp_s) worked_s += launches_on(gpu) * seconds_of_copy();
  std::array<double, 21> seconds{};
  for (double& one : seconds) one = seconds_of_copy();
  const auto median = seconds.begin() + seconds.size() / 2;
  std::nth_element(seconds.begin(), median, seconds.end());
  return 2 * static_cast<double>(from.nbytes()) / *median;
}

}  // namespace noisemark::memopt::test
