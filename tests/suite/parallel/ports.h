#pragma once

#include <cstdint>

namespace noisemark::suite::test {

/// A port of this machine at which somebody listens.
class BusyPort {
 public:
  BusyPort();
  ~BusyPort();
  BusyPort(const BusyPort&) = delete;
  BusyPort& operator=(const BusyPort&) = delete;
  [[nodiscard]] int64_t port() const { return port_; }
  [[nodiscard]] int listener() const { return socket_; }

 private:
  int socket_;
  int64_t port_ = 0;
};

/// A port that was free a moment ago.
[[nodiscard]] int64_t free_port();

}  // namespace noisemark::suite::test
