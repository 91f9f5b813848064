#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reports/base/fields.h"
#include "reports/trace/trace.h"

namespace noisemark::reports {

/// The kinds of time of an edge of a critical path.
enum class SpanEdge : uint8_t {
  kHost,    ///< lies within operators and calls, and between those of one parent
  kDevice,  ///< an event on a stream
  kLaunch,  ///< leads from a call to the start of what it launched
  kGap,     ///< leads from an event on a stream to the next one
  kOrder,   ///< no time: one comes before the other
  kWait,    ///< no time: one waits for the other
};
inline constexpr size_t kSpanEdges = 6;

/// Points in time that wait for one another.
class SpanGraph {
 public:
  struct Edge {
    uint32_t from = 0;
    uint32_t to = 0;
    SpanEdge kind = SpanEdge::kOrder;
    int64_t us = 0;
  };

  explicit SpanGraph(size_t nodes) : in_(nodes), out_(nodes) {}

  /// Factors for the times of edges, by their kind.
  using Scale = std::array<double, kSpanEdges>;

  /// An edge between two nodes takes the place of one that was there. Less than no time is none.
  void add(const Edge& edge);

  [[nodiscard]] size_t nodes() const { return in_.size(); }
  /// The nodes that have an edge.
  [[nodiscard]] size_t linked() const;
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }

  struct Path {
    int64_t us = 0;
    std::vector<uint32_t> edges;    ///< places in edges(), from the first to the last
    std::vector<double> scaled_us;  ///< length of the longest path under each scale
  };
  /// The longest path. Of equal ones the first found counts, as in NetworkX' dag_longest_path.
  /// It is empty where nodes wait in a circle.
  [[nodiscard]] Path longest(const std::vector<Scale>& scales = {}) const;

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  /// The edges of a node in the order in which they were added; each leads to the next one.
  struct Chain {
    uint32_t first = kNone;
    uint32_t last = kNone;
  };
  struct Next {
    uint32_t in = kNone;   ///< the next edge to the same node
    uint32_t out = kNone;  ///< the next edge from the same node
  };
  void append(Chain& chain, uint32_t edge, uint32_t Next::*next);
  [[nodiscard]] std::vector<uint32_t> in_order() const;

  std::vector<Edge> edges_;
  std::vector<Next> next_;  ///< the followers of each edge
  std::vector<Chain> in_;   ///< the edges of each node
  std::vector<Chain> out_;
};

/// The part of a trace whose path is sought.
struct TraceWindow {
  std::string annotation;  ///< a part of its name: "ProfilerStep"; empty: the whole trace
  size_t instance = 0;     ///< the first one in the file is 0
};

/// The chain of events of which each waited for the one before it, and which takes longest: whoever
/// wants the window to end sooner must shorten it.
struct CriticalPath {
  std::string window;  ///< the annotation; empty: the whole trace
  size_t nodes = 0;    ///< starts and ends of events that have an edge
  size_t edges = 0;
  size_t path_nodes = 0;
  size_t path_events = 0;
  int64_t us = 0;
  std::array<int64_t, kSpanEdges> by_kind_us{};  ///< time on the path, by SpanEdge
  struct Share {
    std::string name;
    int64_t us = 0;
  };
  std::vector<Share> longest;  ///< event names with the most time on the path, longest first

  struct WhatIf {
    std::string change;
    double us = 0;
  };
  std::vector<WhatIf> what_if;  ///< the length of the path that is then the longest
};

/// A graph after HolisticTraceAnalysis' critical path analysis: operators and calls of a thread
/// follow one another, calls that take the runtime's lock do so over threads, what is launched
/// waits for its call or for the stream, and waits for events, streams and devices are followed
/// where the trace has them. Nothing is returned where the window is empty or spans wait in a
/// circle. Throws Error (bad input) for an annotation that is not there, with `where` before it.
[[nodiscard]] CriticalPath critical_path_of(const Trace& trace, const TraceWindow& window,
                                            const std::string& where);

/// The first step of the profiler that is whole, or the whole trace.
[[nodiscard]] TraceWindow default_window(const Trace& trace);

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
  int64_t compute_us = 0;  ///< time with whatever overlaps it
  /// Times in which exactly these kinds of work ran: bit 0 is compute, 1 communication, 2 memory.
  std::array<int64_t, 8> alone_us{};
  std::vector<StreamIdle> streams;  ///< streams in the order of their numbers

  /// Busy without compute, waits among it.
  [[nodiscard]] int64_t other_us() const { return total_us - idle_us - compute_us; }
  /// Time in which the kind ran, whatever ran beside it.
  [[nodiscard]] int64_t of_kind_us(TraceWork work) const;
  /// The part of communication that ran beside compute; 0 without communication.
  [[nodiscard]] double hidden_communication() const;
};

[[nodiscard]] TraceBreakdown breakdown_of(const Trace& trace);

/// The calls of one name and what they launched, paired by correlation: whatever the name, and a
/// graph's whole content with the one call that launches it.
struct LaunchRow {
  std::string call;
  int64_t calls = 0;
  int64_t launched = 0;       ///< kernels, copies and fills
  int64_t host_us = 0;        ///< time in the calls
  int64_t device_us = 0;      ///< time in what they launched
  int64_t delay_us = 0;       ///< from the ends of calls to the starts of what they launched
  int64_t short_kernels = 0;  ///< kernels, copies and fills that took less than their call
  int64_t long_calls = 0;     ///< calls of more than 50 us
  int64_t long_delays = 0;    ///< delays of more than 100 us
};

/// Work that was launched on a stream and has not begun, after each launch and each begin. The
/// quartiles lie between two values where they fall between them.
struct QueueRow {
  int64_t stream = 0;
  int64_t changes = 0;
  double mean = 0;
  double sd = 0;  ///< sample standard deviation
  double low = 0;
  double quartile1 = 0;
  double median = 0;
  double quartile3 = 0;
  double high = 0;
};

/// Returns them in the order of their time on the device, longest first.
[[nodiscard]] std::vector<LaunchRow> launches_of(const Trace& trace);

/// Returns them in the order of the streams' numbers.
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

/// The analyses of a trace for people: where the time went in one sentence, then the tables, then
/// what their words mean. A pure function; `title` is the name of the trace.
[[nodiscard]] std::string trace_markdown(const std::string& title, const Trace& trace,
                                         const CriticalPath& path);

/// Returns the same figures for programs, with times in microseconds.
[[nodiscard]] std::string trace_json(const Trace& trace, const CriticalPath& path);

/// The document that trace_json() prints.
[[nodiscard]] json::Published trace_document();

}  // namespace noisemark::reports
