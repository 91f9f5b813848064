#include "suite/probes/slow_down.h"

#include <time.h>

#include <stdexcept>

#include "memopt/device_parts.h"

namespace noisemark::suite {
namespace {

using Clock = std::chrono::steady_clock;

std::chrono::nanoseconds time_on_processor() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

SlowDown::SlowDown(c10::Device device, double frac)
    : clock_(memopt::make_device_clock(device)), frac_(frac) {
  if (!(frac >= 0)) throw std::logic_error("slow-down: a negative fraction");
}

void SlowDown::on_step_begin(int64_t /*step*/) {
  clock_->synchronize();
  begin_ = Clock::now();
}

void SlowDown::on_step_end(int64_t /*step*/) {
  clock_->synchronize();
  const auto longer =
      std::chrono::duration_cast<std::chrono::nanoseconds>((Clock::now() - begin_) * frac_);
  const std::chrono::nanoseconds end = time_on_processor() + longer;
  while (time_on_processor() < end) {
  }
}

}  // namespace noisemark::suite
