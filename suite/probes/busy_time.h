#pragma once

#include <cstdint>
#include <vector>

/// How long a device was at work, from what ran on it and when.
namespace noisemark::suite {

/// [begin, end) of something that ran on a device.
struct BusySpan {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

/// What ran on one device in some steps.
struct DeviceActivity {
  std::vector<BusySpan> kernels;
  std::vector<BusySpan> copies;  ///< memory copied or set
};

/// Of a step. Overlapping kernels of several streams count once in what is merged.
struct BusyTime {
  double kernel_s = 0;         ///< at least one kernel ran
  double busy_s = 0;           ///< at least one kernel or copy ran
  double summed_kernel_s = 0;  ///< every kernel by itself, as if none overlapped
  double kernels = 0;          ///< how many
};

/// Length of the union. Spans may lie in any order, overlap and touch; one that ends before it
/// begins counts nothing.
[[nodiscard]] int64_t merged_ns(std::vector<BusySpan> spans);

/// Per step, of `steps`.
[[nodiscard]] BusyTime busy_time(const DeviceActivity& activity, int steps);

}  // namespace noisemark::suite
