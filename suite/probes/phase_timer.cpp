#include "suite/probes/phase_timer.h"

#include <time.h>

#include <array>
#include <stdexcept>

#include "memopt/device/device_clock.h"

namespace noisemark::suite {

PhaseTimer::PhaseTimer(c10::Device device) : clock_(memopt::make_device_clock(device)) {}

void PhaseTimer::on_step_begin(int64_t /*step*/) {
  parts_.clear();
  clock_->clear();
  clock_->synchronize();
  step_begin_ = clock_->mark();
}

void PhaseTimer::on_phase_begin(Phase /*phase*/) {
  phase_begin_ = clock_->mark();
}

void PhaseTimer::on_phase_end(Phase phase) {
  parts_.push_back({phase, phase_begin_, clock_->mark()});
}

void PhaseTimer::on_step_end(int64_t /*step*/) {
  const Mark end = clock_->mark();
  clock_->synchronize();
  std::array<double, 5> seconds{};
  for (const Part& part : parts_) {
    seconds[static_cast<size_t>(part.phase)] += clock_->seconds_between(part.begin, part.end);
  }
  samples_.step_s.push_back(clock_->seconds_between(step_begin_, end));
  samples_.data_wait_s.push_back(seconds[static_cast<size_t>(Phase::kData)]);
  samples_.forward_s.push_back(seconds[static_cast<size_t>(Phase::kForward)]);
  samples_.backward_s.push_back(seconds[static_cast<size_t>(Phase::kBackward)]);
  samples_.optimizer_s.push_back(seconds[static_cast<size_t>(Phase::kOptimizer)]);
  samples_.ema_s.push_back(seconds[static_cast<size_t>(Phase::kEma)]);
}

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
