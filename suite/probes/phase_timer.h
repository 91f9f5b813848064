#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "memopt/device/device_clock.h"
#include "reports/result/result.h"
#include "suite/train/observer.h"

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
  /// Seconds that all threads of the process together were on processors, in each of these steps.
  [[nodiscard]] const std::vector<double>& processor_s() const { return processor_s_; }

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
  std::chrono::nanoseconds processor_begin_{};
  std::vector<Part> parts_;
  reports::Samples samples_;
  std::vector<double> processor_s_;
};

/// The metric "cpu_frac": time on processors over wall time x threads, in the steps after the
/// warm-up. `processor_s` is of the last steps of `result`: a resumed run has not measured others.
[[nodiscard]] reports::Metric cpu_metric(const std::vector<double>& processor_s,
                                         const reports::Result& result);

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
