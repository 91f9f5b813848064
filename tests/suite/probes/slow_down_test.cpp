#include "suite/probes/slow_down.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace noisemark::suite {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(SlowDown, makes_a_step_take_at_least_the_fraction_longer) {
  SlowDown slow_down(c10::kCPU, 1.5);
  const Clock::time_point begin = Clock::now();
  slow_down.on_step_begin(0);
  std::this_thread::sleep_for(milliseconds(20));
  slow_down.on_step_end(0);
  // No upper bound: a busy machine may take any time.
  EXPECT_GE(Clock::now() - begin, milliseconds(50));
}

TEST(SlowDown, refuses_to_speed_up) {
  EXPECT_THROW(SlowDown(c10::kCPU, -0.1), std::logic_error);
}

}  // namespace
}  // namespace noisemark::suite
