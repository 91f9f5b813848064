#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "reports/trace/trace.h"

namespace noisemark::reports {

/// The reasons for which a stream had nothing to do before its events.
struct StreamIdle {
  int64_t stream = 0;
  int64_t events = 0;
  int64_t host_us = 0;    ///< the event was only launched after the one before it had ended
  int64_t kernel_us = 0;  ///< gaps below 30 us between events that were launched in time
  int64_t other_us = 0;
};

/// Says where the time of the device went, from its first event to the end of its last one. Spans
/// that overlap count once. The figures are HolisticTraceAnalysis' temporal breakdown, kernel
/// breakdown with memory, overlap of communication with computation, and idle time breakdown.
struct TraceBreakdown {
  int64_t total_us = 0;
  int64_t idle_us = 0;
  int64_t compute_us = 0;  ///< with whatever overlaps it
  /// Times in which exactly these kinds of work ran: bit 0 is compute, 1 communication, 2 memory.
  std::array<int64_t, 8> alone_us{};
  std::vector<StreamIdle> streams;  ///< by their number

  /// Busy without compute, waits among it.
  [[nodiscard]] int64_t other_us() const { return total_us - idle_us - compute_us; }
  /// Time in which the kind ran, whatever ran beside it.
  [[nodiscard]] int64_t of_kind_us(TraceWork work) const;
  /// The part of communication that ran beside compute; 0 without communication.
  [[nodiscard]] double hidden_communication() const;
};

[[nodiscard]] TraceBreakdown breakdown_of(const Trace& trace);

}  // namespace noisemark::reports
