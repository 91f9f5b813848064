#include "reports/trace/analyses.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

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

namespace {

const TraceEvent* call_of(const Trace& trace, const TraceEvent& event) {
  const bool is_paired = event.category == TraceCategory::kKernel && event.on_stream() &&
                         event.correlation >= 0 && event.partner >= 0;
  return is_paired ? &trace.events[static_cast<size_t>(event.partner)] : nullptr;
}

struct Change {
  int64_t at = 0;
  bool is_launch = false;
  size_t event = 0;
};

/// The launches and begins on each stream in their order. In one microsecond launches come first,
/// so that a queue is only said to be empty where it was.
std::map<int64_t, std::vector<Change>> changes_of(const Trace& trace) {
  std::map<int64_t, std::vector<Change>> streams;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (const TraceEvent* call = call_of(trace, event)) {
      streams[event.stream].push_back({call->start, true, i});
      streams[event.stream].push_back({event.start, false, i});
    }
  }
  for (auto& [stream, changes] : streams) {
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return a.at != b.at ? a.at < b.at : a.is_launch && !b.is_launch;
    });
  }
  return streams;
}

/// The value that divides sorted ones at `part` of them, between two of them by their distance.
double quantile(const std::vector<int32_t>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

QueueRow row_of(int64_t stream, std::vector<int32_t> lengths) {
  std::sort(lengths.begin(), lengths.end());
  QueueRow row;
  const auto count = static_cast<double>(lengths.size());
  row.stream = stream;
  row.changes = static_cast<int64_t>(lengths.size());
  row.mean =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})) / count;
  double squares = 0;
  for (const int32_t length : lengths) squares += (length - row.mean) * (length - row.mean);
  row.sd = std::sqrt(squares / (count - 1));
  row.low = lengths.front();
  row.quartile1 = quantile(lengths, 0.25);
  row.median = quantile(lengths, 0.5);
  row.quartile3 = quantile(lengths, 0.75);
  row.high = lengths.back();
  return row;
}

void add(LaunchRow& row, const TraceEvent& call, const TraceEvent& event) {
  constexpr int64_t kLongDelay = 100;  // us; HolisticTraceAnalysis' default
  const int64_t delay = std::max<int64_t>(0, event.start - call.end);
  ++row.launched;
  row.device_us += event.duration();
  row.delay_us += delay;
  row.short_kernels += event.duration() < call.duration() ? 1 : 0;
  row.long_delays += delay > kLongDelay ? 1 : 0;
}

}  // namespace

std::vector<LaunchRow> launches_of(const Trace& trace) {
  constexpr int64_t kLongCall = 50;  // us; HolisticTraceAnalysis' default
  std::map<uint32_t, LaunchRow> rows;
  std::vector<char> seen(trace.events.size());
  for (const TraceEvent& event : trace.events) {
    const TraceEvent* call = call_of(trace, event);
    if (call == nullptr) continue;
    LaunchRow& row = rows[call->name];
    add(row, *call, event);
    if (std::exchange(seen[static_cast<size_t>(event.partner)], 1) != 0) continue;
    ++row.calls;
    row.host_us += call->duration();
    row.long_calls += call->duration() > kLongCall ? 1 : 0;
  }
  std::vector<LaunchRow> sorted;
  for (auto& [name, row] : rows) {
    row.call = trace.names[name];
    sorted.push_back(row);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.device_us > b.device_us; });
  return sorted;
}

QueueLengths queue_lengths(const Trace& trace) {
  QueueLengths lengths;
  lengths.at_launch.assign(trace.events.size(), QueueLengths::kNone);
  lengths.at_begin = lengths.at_launch;
  for (const auto& [stream, changes] : changes_of(trace)) {
    int32_t length = 0;
    for (const Change& change : changes) {
      length += change.is_launch ? 1 : -1;
      (change.is_launch ? lengths.at_launch : lengths.at_begin)[change.event] = length;
    }
  }
  return lengths;
}

std::vector<QueueRow> queues_of(const Trace& trace) {
  const QueueLengths lengths = queue_lengths(trace);
  std::map<int64_t, std::vector<int32_t>> streams;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    if (lengths.at_begin[i] == QueueLengths::kNone) continue;
    streams[trace.events[i].stream].push_back(lengths.at_launch[i]);
    streams[trace.events[i].stream].push_back(lengths.at_begin[i]);
  }
  std::vector<QueueRow> rows;
  for (auto& [stream, all] : streams) rows.push_back(row_of(stream, std::move(all)));
  return rows;
}

int64_t unpaired_of(const Trace& trace) {
  return std::count_if(trace.events.begin(), trace.events.end(), [&](const TraceEvent& event) {
    return event.on_stream() && event.category == TraceCategory::kKernel &&
           call_of(trace, event) == nullptr;
  });
}

}  // namespace noisemark::reports
