#pragma once

#include <cstdint>
#include <string_view>

namespace noisemark::suite {

/// Parts of one optimizer step, in order. With accumulation, kForward and kBackward alternate.
enum class Phase { kData, kForward, kBackward, kOptimizer, kEma };

[[nodiscard]] std::string_view phase_name(Phase phase);

/// Told where a training step is. Called on the training thread.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void on_step_begin(int64_t step) = 0;
  virtual void on_phase_begin(Phase phase) = 0;
  virtual void on_phase_end(Phase phase) = 0;
  /// Gradients are already released.
  virtual void on_step_end(int64_t step) = 0;
};

}  // namespace noisemark::suite
