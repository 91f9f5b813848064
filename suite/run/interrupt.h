#pragma once

#include <stdexcept>
#include <string>

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

/// A pass that has nothing to keep ended because it was asked to. what() says after which step.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(const std::string& what) : std::runtime_error(what) {}
};

}  // namespace noisemark::suite
