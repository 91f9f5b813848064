#include "suite/probes/slow_down.h"

#include <stdexcept>

#include "memopt/device_parts.h"

namespace noisemark::suite {

using Clock = std::chrono::steady_clock;

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
  const Clock::time_point now = Clock::now();
  const auto longer = std::chrono::duration_cast<Clock::duration>((now - begin_) * frac_);
  while (Clock::now() < now + longer) {
  }
}

}  // namespace noisemark::suite
