#include "tests/memopt/counting_clock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace noisemark::memopt::test {
namespace {

std::atomic<bool> clock_counts = false;
std::atomic<uint64_t> readings = 0;

/// Each reading is up to 64 us after the one before it.
int64_t next_reading_ns() {
  constexpr uint64_t kLongest = 32'000;
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
  const uint64_t reading = readings++;
  const uint64_t mixed = (reading * kGoldenRatio) >> 32U;
  return static_cast<int64_t>(reading * kLongest + mixed % kLongest);
}

}  // namespace

CountingClock::CountingClock() {
  readings = 0;
  clock_counts = true;
}

CountingClock::~CountingClock() {
  clock_counts = false;
}

/// Stands in the place of libc's in programs that are linked with this file: std::chrono calls it.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock != CLOCK_MONOTONIC || !clock_counts) {
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  }
  constexpr int64_t kNanosecondsOfOne = 1'000'000'000;
  const int64_t now_ns = next_reading_ns();
  *time = {now_ns / kNanosecondsOfOne, now_ns % kNanosecondsOfOne};
  return 0;
}

}  // namespace noisemark::memopt::test
