#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "reports/trace/span_graph.h"
#include "reports/trace/trace.h"

namespace noisemark::reports {

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
  std::array<int64_t, kSpanEdges> by_kind_us{};  ///< of the path, by SpanEdge
  struct Share {
    std::string name;
    int64_t us = 0;
  };
  std::vector<Share> longest;  ///< what the path spends in events of one name, longest first

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

}  // namespace noisemark::reports
