#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "memopt/device_clock.h"
#include "reports/result.h"
#include "suite/train/phase.h"

namespace noisemark::suite {

/// Seconds of every step and of its phases. On a GPU the host waits for the device at the edges of
/// a step only; phases are told apart by marks in the device's stream. With accumulation the parts
/// of a phase are added up.
class PhaseTimer final : public StepObserver {
 public:
  explicit PhaseTimer(c10::Device device);

  void on_step_begin(int64_t step) override;
  void on_phase_begin(Phase phase) override;
  void on_phase_end(Phase phase) override;
  void on_step_end(int64_t step) override;

  /// The `*_s` fields; one value per step that ended. A phase that a step did not have took 0.
  [[nodiscard]] const reports::Samples& samples() const { return samples_; }

 private:
  using Mark = memopt::DeviceClock::Mark;
  struct Part {
    Phase phase;
    Mark begin;
    Mark end;
  };

  std::unique_ptr<memopt::DeviceClock> clock_;
  Mark step_begin_ = 0;
  Mark phase_begin_ = 0;
  std::vector<Part> parts_;
  reports::Samples samples_;
};

}  // namespace noisemark::suite
