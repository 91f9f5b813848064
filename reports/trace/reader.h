#pragma once

#include <filesystem>

#include "reports/trace/trace.h"

namespace noisemark::reports {

/// Reads a trace of kineto, JSON or gzip of it, in one pass: in memory are its events, of 56 bytes
/// each, and every name once. The trace is complete(). Throws Error (bad input), «PATH: what:
/// found (accepted)», where the file cannot be read or unpacked, is no JSON or ends too early,
/// holds no list traceEvents or no event of kineto, or an event without a number as its time.
[[nodiscard]] Trace read_trace(const std::filesystem::path& path);

}  // namespace noisemark::reports
