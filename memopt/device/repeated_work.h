#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace noisemark::memopt {

/// Something needs the host in every step, and the step is being recorded for the device to repeat
/// alone.
class NotRepeatable : public std::runtime_error {
 public:
  explicit NotRepeatable(const std::string& what) : std::runtime_error(what) {}
};

/// While alive, what this process issues is recorded (a CUDA graph), to be repeated later without
/// the host: what it reads or decides now holds for all repetitions. One at a time in a process.
class [[nodiscard]] RepeatedWorkScope {
 public:
  RepeatedWorkScope();
  ~RepeatedWorkScope();
  RepeatedWorkScope(const RepeatedWorkScope&) = delete;
  RepeatedWorkScope& operator=(const RepeatedWorkScope&) = delete;

  /// Throws NotRepeatable when somebody needed the host, also where that was caught since.
  void check() const;
};

/// Returns whether somebody has opened a RepeatedWorkScope: a device may then not be asked how far
/// it is.
[[nodiscard]] bool work_is_recorded();

/// Must be called before the host does for a step what no repetition could do. Throws NotRepeatable
/// with `why` inside a RepeatedWorkScope, which any thread may have opened.
void require_host(std::string_view why);

}  // namespace noisemark::memopt
