#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memopt/accounting/owner.h"
#include "memopt/modes/mode.h"

namespace noisemark::suite {

/// Parts of one optimizer step, in the order of reports::kSamplePhases. With accumulation, kForward
/// and kBackward alternate.
enum class Phase { kData, kForward, kBackward, kOptimizer, kEma };

[[nodiscard]] constexpr std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, 5> kNames = {"data", "forward", "backward", "optimizer",
                                                      "ema"};
  return kNames[static_cast<size_t>(phase)];
}

/// Hears where a training step is, on the training thread.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void on_step_begin(int64_t step) = 0;
  virtual void on_phase_begin(Phase phase) = 0;
  virtual void on_phase_end(Phase phase) = 0;
  /// Gradients are already released.
  virtual void on_step_end(int64_t step) = 0;
};

/// Hears, while a trainer is made, whose tensors are made next.
class BuildObserver {
 public:
  virtual ~BuildObserver() = default;
  virtual void on_part(memopt::Owner owner) = 0;
};

/// Tells every observer that a phase began, and at the end of the scope that it ended.
class [[nodiscard]] PhaseScope {
 public:
  PhaseScope(const std::vector<StepObserver*>& observers, Phase phase)
      : observers_(observers), phase_(phase) {
    for (StepObserver* observer : observers_) observer->on_phase_begin(phase_);
  }
  ~PhaseScope() {
    for (StepObserver* observer : observers_) observer->on_phase_end(phase_);
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  const std::vector<StepObserver*>& observers_;
  Phase phase_;
};

class [[nodiscard]] ModeStepGuard {
 public:
  ModeStepGuard(memopt::Mode& mode, int64_t step) : mode_(mode) { mode_.begin_step(step); }
  ~ModeStepGuard() { mode_.end_step(); }
  ModeStepGuard(const ModeStepGuard&) = delete;
  ModeStepGuard& operator=(const ModeStepGuard&) = delete;

 private:
  memopt::Mode& mode_;
};

}  // namespace noisemark::suite
