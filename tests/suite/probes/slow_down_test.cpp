#include "suite/probes/slow_down.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace noisemark::suite {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Keeps this thread, and those that it starts, on one processor.
class OneProcessor {
 public:
  OneProcessor() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OneProcessor() { sched_setaffinity(0, sizeof(before_), &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

std::chrono::nanoseconds time_on_processor() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(SlowDown, makes_a_step_take_at_least_the_fraction_longer) {
  SlowDown slow_down(c10::kCPU, 1.5);
  const Clock::time_point begin = Clock::now();
  slow_down.on_step_begin(0);
  std::this_thread::sleep_for(milliseconds(20));
  slow_down.on_step_end(0);
  // No upper bound: a busy machine may take any time.
  EXPECT_GE(Clock::now() - begin, milliseconds(50));
}

TEST(SlowDown, is_no_shorter_for_what_runs_beside_it) {
  const OneProcessor shared;
  std::atomic<bool> done{false};
  std::thread beside([&] {
    while (!done) {
    }
  });
  SlowDown slow_down(c10::kCPU, 2);
  slow_down.on_step_begin(0);
  std::this_thread::sleep_for(milliseconds(100));
  const auto before = time_on_processor();
  slow_down.on_step_end(0);
  const auto taken = time_on_processor() - before;
  done = true;
  beside.join();
  EXPECT_GE(taken, milliseconds(200));
}

TEST(SlowDown, refuses_to_speed_up) {
  EXPECT_THROW(SlowDown(c10::kCPU, -0.1), std::logic_error);
}

}  // namespace
}  // namespace noisemark::suite
