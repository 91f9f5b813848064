#pragma once

#include <string>

#include "reports/trace/critical_path.h"
#include "reports/trace/trace.h"

namespace noisemark::reports {

/// The analyses of a trace for people: where the time went in one sentence, then the tables, then
/// what their words mean. A pure function; `title` is the name of the trace.
[[nodiscard]] std::string trace_markdown(const std::string& title, const Trace& trace,
                                         const CriticalPath& path);

/// The same figures for programs, times as integers of microseconds.
[[nodiscard]] std::string trace_json(const Trace& trace, const CriticalPath& path);

}  // namespace noisemark::reports
