#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// A trace of kineto, the profiler of PyTorch, and the analyses of it that HolisticTraceAnalysis
/// 0.6.1 also makes. Times are whole microseconds.
namespace noisemark::reports {

enum class TraceCategory : uint8_t {
  kOperator,
  kAnnotation,
  kRuntime,  ///< calls of the runtime and the driver of the device
  kKernel,   ///< kernels, copies and fills on a stream of the device
  kSync,     ///< waits that the device's library reports, on a stream or on all
  kOther,
};

/// A span of time on a thread of the host or on a stream of a device.
struct TraceEvent {
  int64_t start = 0;  ///< us, rounded up
  int64_t end = 0;    ///< us, rounded down, so that spans of nanoseconds stay within their parents
  int64_t correlation = -1;  ///< one number for a call and for what it launched; -1: none
  int64_t stream = -1;
  uint32_t name = 0;  ///< index of Trace::names, as pid and tid are
  uint32_t pid = 0;
  uint32_t tid = 0;
  int32_t partner = -1;  ///< the event of the other side that has the correlation, if any
  int32_t wait = -1;     ///< index of Trace::waits
  TraceCategory category = TraceCategory::kOther;

  [[nodiscard]] int64_t duration() const { return end - start; }
  /// Returns whether it takes a stream's time.
  [[nodiscard]] bool on_stream() const {
    return stream >= 0 && (category == TraceCategory::kKernel || category == TraceCategory::kSync);
  }
};

/// An event of a device waits for what a stream had to do when an event was recorded on it.
struct TraceWait {
  int64_t stream = -1;
  int64_t record = -1;  ///< correlation of the call that recorded it
};

struct Trace {
  std::vector<std::string> names;  ///< every text once
  std::vector<TraceEvent> events;  ///< events in the order of the file
  std::vector<TraceWait> waits;
  std::string left_out;  ///< the annotation from which on events were left out; empty: none

  [[nodiscard]] const std::string& name_of(const TraceEvent& event) const {
    return names[event.name];
  }
  /// Returns whether the event is of the device's side of a correlation.
  [[nodiscard]] bool on_device(const TraceEvent& event) const;
};

/// Leaves out what belongs to no whole step: with at least two steps of the profiler
/// ("ProfilerStep#7"), events of the host from the start of the last one on, and what they
/// launched. Then pairs calls with what they launched, by their correlation alone.
void complete(Trace& trace);

/// The kind of work of an event, by its name and by the rules of HolisticTraceAnalysis. Waits
/// and whatever has "Sync" in its name are kNoWork.
enum class TraceWork : uint8_t { kCompute, kCommunication, kMemory, kNoWork };
[[nodiscard]] TraceWork work_of(std::string_view name);

/// Events on streams by their start; equal ones in the order of the file.
[[nodiscard]] std::vector<const TraceEvent*> events_on_streams(const Trace& trace);

/// Reads a trace of kineto, JSON or gzip of it, in one pass: in memory are its events, of 56 bytes
/// each, and every name once. The trace is complete(). Throws Error (bad input), «PATH: what:
/// found (accepted)», where the file cannot be read or unpacked, is no JSON or ends too early,
/// holds no list traceEvents or no event of kineto, or an event without a number as its time.
[[nodiscard]] Trace read_trace(const std::filesystem::path& path);

}  // namespace noisemark::reports
