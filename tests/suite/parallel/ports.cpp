#include "tests/suite/parallel/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace noisemark::suite::test {

BusyPort::BusyPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket_, generic, size) != 0 || listen(socket_, 1) != 0 ||
      getsockname(socket_, generic, &size) != 0) {
    throw std::runtime_error("no free port");
  }
  port_ = ntohs(address.sin_port);
}

BusyPort::~BusyPort() {
  close(socket_);
}

int64_t free_port() {
  return BusyPort().port();
}

}  // namespace noisemark::suite::test
