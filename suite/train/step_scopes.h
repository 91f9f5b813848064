#pragma once

#include <cstdint>
#include <vector>

#include "memopt/mode.h"
#include "suite/train/phase.h"

namespace noisemark::suite {

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
