#pragma once

namespace noisemark::suite {

/// While alive, the first Ctrl-C (or SIGTERM) only asks for an end after the current step; a second
/// one ends the process as usual. One at a time.
class [[nodiscard]] InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] bool requested() const;
};

}  // namespace noisemark::suite
