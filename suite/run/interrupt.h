#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>

namespace noisemark::suite {

/// While alive, the first Ctrl-C (or SIGTERM) only asks for an end after the current step; a second
/// one ends the process as usual. One that InterruptForwarding of the parent passed on and that
/// came by itself too, from a terminal that sends it to all, is one. One guard at a time.
class [[nodiscard]] InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] bool requested() const;
};

/// While alive, within an InterruptGuard, every interrupt of this process goes on to `child`, an
/// earlier one too, and not even a second one ends this process: it stays to tell how the child
/// ended. `child` must not be waited for before the end.
class [[nodiscard]] InterruptForwarding {
 public:
  explicit InterruptForwarding(pid_t child);
  ~InterruptForwarding();
  InterruptForwarding(const InterruptForwarding&) = delete;
  InterruptForwarding& operator=(const InterruptForwarding&) = delete;
};

/// A pass that has nothing to keep ended because it was asked to. what() says after which step.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(const std::string& what) : std::runtime_error(what) {}
};

}  // namespace noisemark::suite
