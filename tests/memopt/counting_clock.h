#pragma once

namespace noisemark::memopt::test {

/// While alive, the process's steady clock counts how often it was read and does not show the time:
/// plans follow what operators take, and are then the same in every run, on any machine. One at a
/// time.
class [[nodiscard]] CountingClock {
 public:
  CountingClock();
  ~CountingClock();
  CountingClock(const CountingClock&) = delete;
  CountingClock& operator=(const CountingClock&) = delete;
};

}  // namespace noisemark::memopt::test
