#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "memopt/device_clock.h"
#include "suite/train/phase.h"

namespace noisemark::suite {

/// A control for tools that look for regressions: makes every step take a fraction longer, by
/// keeping the host busy at its end. It is time on the processor, as slower code would take:
/// waiting by the clock would end while another thread has the processor, and so hide what that
/// costs both sides of a comparison. Must stand before the timer among a step's observers.
class SlowDown final : public StepObserver {
 public:
  /// `frac` of the step's own time; at least 0.
  SlowDown(c10::Device device, double frac);

  void on_step_begin(int64_t step) override;
  void on_phase_begin(Phase /*phase*/) override {}
  void on_phase_end(Phase /*phase*/) override {}
  void on_step_end(int64_t step) override;

 private:
  std::unique_ptr<memopt::DeviceClock> clock_;
  double frac_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace noisemark::suite
