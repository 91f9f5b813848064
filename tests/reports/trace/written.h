#pragma once

#include <string>

#include "reports/base/file.h"
#include "reports/trace/trace.h"
#include "tests/suite/scratch.h"

namespace noisemark::reports::test {

/// Reads a file that holds `text`.
inline Trace read_text(const std::string& text) {
  const suite::test::TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  write_file_atomically(path, text);
  return read_trace(path);
}

/// Reads a trace of these events, each with the start and the duration before its other parts.
inline Trace read_events(const std::string& events) {
  return read_text(R"({"schemaVersion": 1, "traceEvents": [)" + events + "]}");
}

/// A call that launches, or with a stream what it launched.
inline std::string call(int start, int duration, int correlation,
                        const std::string& name = "cudaLaunchKernel") {
  return R"({"ph": "X", "cat": "cuda_runtime", "name": ")" + name +
         R"(", "pid": 1, "tid": 1, "ts": )" + std::to_string(start) + R"(, "dur": )" +
         std::to_string(duration) + R"(, "args": {"correlation": )" + std::to_string(correlation) +
         "}},";
}
inline std::string kernel(int start, int duration, int correlation,
                          const std::string& name = "gemm", int stream = 7) {
  return R"({"ph": "X", "cat": "kernel", "name": ")" + name + R"(", "pid": 0, "tid": 7, "ts": )" +
         std::to_string(start) + R"(, "dur": )" + std::to_string(duration) +
         R"(, "args": {"stream": )" + std::to_string(stream) + R"(, "correlation": )" +
         std::to_string(correlation) + "}},";
}
/// Ends a list of the above, of which each has a comma behind it.
inline constexpr const char* kEnd = R"({"ph": "M", "name": "process_name", "ts": 0})";

}  // namespace noisemark::reports::test
