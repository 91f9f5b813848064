#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reports/trace/trace.h"

namespace noisemark::reports {

/// The calls of one name and what they launched, paired by correlation: whatever the name, and a
/// graph's whole content with the one call that launches it.
struct LaunchRow {
  std::string call;
  int64_t calls = 0;
  int64_t launched = 0;       ///< kernels, copies and fills
  int64_t host_us = 0;        ///< in the calls
  int64_t device_us = 0;      ///< in what they launched
  int64_t delay_us = 0;       ///< from the ends of calls to the starts of what they launched
  int64_t short_kernels = 0;  ///< that took less than their call
  int64_t long_calls = 0;     ///< of more than 50 us
  int64_t long_delays = 0;    ///< of more than 100 us
};

/// Work that was launched on a stream and has not begun, after each launch and each begin. The
/// quartiles lie between two values where they fall between them.
struct QueueRow {
  int64_t stream = 0;
  int64_t changes = 0;
  double mean = 0;
  double sd = 0;  ///< of a sample
  double low = 0;
  double quartile1 = 0;
  double median = 0;
  double quartile3 = 0;
  double high = 0;
};

/// By the time on the device, longest first.
[[nodiscard]] std::vector<LaunchRow> launches_of(const Trace& trace);

/// By the number of the stream.
[[nodiscard]] std::vector<QueueRow> queues_of(const Trace& trace);

/// Counts what stands in a queue and is not paired with a call: kernels, copies and fills alone.
[[nodiscard]] int64_t unpaired_of(const Trace& trace);

/// The length of its queue after the launch of each event on a stream and after its begin, by its
/// place in `trace.events`; kNone for the others.
struct QueueLengths {
  static constexpr int32_t kNone = std::numeric_limits<int32_t>::min();
  std::vector<int32_t> at_launch;
  std::vector<int32_t> at_begin;
};
[[nodiscard]] QueueLengths queue_lengths(const Trace& trace);

}  // namespace noisemark::reports
