#include "suite/run/interrupt.h"

#include <csignal>

namespace noisemark::suite {
namespace {

// A signal handler can reach nothing but a global of this type.
volatile std::sig_atomic_t interrupt_requested = 0;

void request_interrupt(int signal) {
  interrupt_requested = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupt_requested = 0;
  std::signal(SIGINT, request_interrupt);
  std::signal(SIGTERM, request_interrupt);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::requested() const {
  return interrupt_requested != 0;
}

}  // namespace noisemark::suite
