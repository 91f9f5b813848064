#pragma once

#include "suite/models/denoiser.h"

namespace noisemark::suite {

/// While alive, the model is in evaluation mode (no dropout); the destructor puts back the mode
/// that it was in.
class [[nodiscard]] EvaluationModeGuard {
 public:
  explicit EvaluationModeGuard(Denoiser& model)
      : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationModeGuard() { model_.train(was_training_); }
  EvaluationModeGuard(const EvaluationModeGuard&) = delete;
  EvaluationModeGuard& operator=(const EvaluationModeGuard&) = delete;

 private:
  Denoiser& model_;
  bool was_training_;
};

}  // namespace noisemark::suite
