#include "reports/trace/analyses.h"

#include <algorithm>
#include <map>

namespace noisemark::reports {
namespace {

constexpr size_t kKinds = 3;  // compute, communication and memory

struct Span {
  int64_t start = 0;
  int64_t end = 0;
};

/// Joins `event`, which starts no earlier than those before it, to the last span or begins another.
void join(std::vector<Span>& spans, const TraceEvent& event) {
  if (spans.empty() || event.start > spans.back().end) {
    spans.push_back({event.start, event.end});
  } else {
    spans.back().end = std::max(spans.back().end, event.end);
  }
}

int64_t sum_of(const std::vector<Span>& spans) {
  int64_t sum = 0;
  for (const Span& span : spans) sum += span.end - span.start;
  return sum;
}

std::array<int64_t, 8> times_alone(const std::array<std::vector<Span>, kKinds>& kinds) {
  struct Change {
    int64_t at;
    int by;
  };
  std::vector<Change> changes;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (const Span& span : kinds[kind]) {
      changes.push_back({span.start, 1 << kind});
      changes.push_back({span.end, -(1 << kind)});
    }
  }
  std::sort(changes.begin(), changes.end(),
            [](const auto& a, const auto& b) { return a.at != b.at ? a.at < b.at : a.by < b.by; });
  std::array<int64_t, 8> alone{};
  int running = 0;
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    running += changes[i].by;
    const int64_t time = changes[i + 1].at - changes[i].at;
    if (time > 0) alone.at(static_cast<size_t>(running)) += time;
  }
  return alone;
}

std::vector<StreamIdle> idle_of(const Trace& trace, const std::vector<const TraceEvent*>& events) {
  constexpr int64_t kLaunchGap = 30;  // us; HolisticTraceAnalysis' default
  struct Stream {
    StreamIdle idle;
    int64_t end = 0;
  };
  std::map<int64_t, Stream> streams;
  for (const TraceEvent* event : events) {
    if (event->category != TraceCategory::kKernel) continue;
    Stream& stream = streams[event->stream];
    if (stream.idle.events++ > 0) {
      const int64_t gap = event->start - stream.end;
      const bool late = event->partner >= 0 &&
                        trace.events[static_cast<size_t>(event->partner)].start > stream.end;
      int64_t& cause = late               ? stream.idle.host_us
                       : gap < kLaunchGap ? stream.idle.kernel_us
                                          : stream.idle.other_us;
      cause += gap;
    }
    stream.idle.stream = event->stream;
    stream.end = event->end;
  }
  std::vector<StreamIdle> all;
  for (const auto& [number, stream] : streams) all.push_back(stream.idle);
  return all;
}

}  // namespace

int64_t TraceBreakdown::of_kind_us(TraceWork work) const {
  int64_t sum = 0;
  for (size_t kinds = 0; kinds < alone_us.size(); ++kinds) {
    if ((kinds >> static_cast<size_t>(work) & 1) != 0) sum += alone_us[kinds];
  }
  return sum;
}

double TraceBreakdown::hidden_communication() const {
  const int64_t all = of_kind_us(TraceWork::kCommunication);
  const int64_t hidden = alone_us[0b011] + alone_us[0b111];
  return all == 0 ? 0 : static_cast<double>(hidden) / static_cast<double>(all);
}

TraceBreakdown breakdown_of(const Trace& trace) {
  const std::vector<const TraceEvent*> events = events_on_streams(trace);
  TraceBreakdown breakdown;
  if (events.empty()) return breakdown;
  std::vector<Span> busy;
  std::array<std::vector<Span>, kKinds> kinds;
  for (const TraceEvent* event : events) {
    join(busy, *event);
    const auto kind = static_cast<size_t>(work_of(trace.name_of(*event)));
    if (kind < kKinds) join(kinds.at(kind), *event);
  }
  breakdown.total_us = busy.back().end - busy.front().start;
  breakdown.idle_us = breakdown.total_us - sum_of(busy);
  breakdown.compute_us = sum_of(kinds[0]);
  breakdown.alone_us = times_alone(kinds);
  breakdown.streams = idle_of(trace, events);
  return breakdown;
}

}  // namespace noisemark::reports
