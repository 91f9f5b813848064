#include "suite/probes/phase_timer.h"

#include <array>

#include "memopt/device_parts.h"

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

}  // namespace noisemark::suite
