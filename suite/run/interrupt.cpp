#include "suite/run/interrupt.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>

namespace noisemark::suite {
namespace {

// A signal handler can reach nothing but globals, and share nothing but lock-free atomics.
static_assert(std::atomic<int>::is_always_lock_free);
std::atomic<int> direct = 0;       // from a terminal, a person, a batch system
std::atomic<int> passed_on = 0;    // by the parent, which was sent them too or alone
std::atomic<pid_t> child_now = 0;  // 0: none
std::atomic<int> forwarded = 0;    // to child_now

/// What reached this process in both ways is one request.
int requests() {
  return std::max(direct.load(), passed_on.load());
}

/// Each request once, whichever thread comes here first.
void forward(int signal) {
  int sent = forwarded;
  while (sent < requests()) {
    if (!forwarded.compare_exchange_weak(sent, sent + 1)) continue;
    sigqueue(child_now, signal, sigval{});
    ++sent;
  }
}

void on_interrupt(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const bool by_parent = info->si_code == SI_QUEUE && info->si_pid == getppid();
  ++(by_parent ? passed_on : direct);
  if (child_now != 0) {
    forward(signal);
  } else if (requests() > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  direct = 0;
  passed_on = 0;
  struct sigaction action {};
  action.sa_sigaction = on_interrupt;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::requested() const {
  return requests() > 0;
}

InterruptForwarding::InterruptForwarding(pid_t child) {
  forwarded = 0;
  child_now = child;
  forward(SIGINT);
}

InterruptForwarding::~InterruptForwarding() {
  child_now = 0;
}

}  // namespace noisemark::suite
