#pragma once

#include <memory>
#include <vector>

#include "memopt/backward_watch.h"
#include "memopt/replay/rehearsal.h"

namespace noisemark::memopt {

/// Measures how far plans would move the gradient of one step: its backward pass is run once with
/// everything exact and once under each plan, at the same weights, batch and forward pass.
class GradientProbe {
 public:
  /// Runs the exact pass. Neither argument is copied.
  GradientProbe(Rehearsal& rehearsal, const BackwardAgain& again,
                std::vector<at::Tensor> parameters);

  /// False where there is nothing to compare with: the backward is of another forward pass, the
  /// forward pass was not the recorded one, or the gradient is zero or not finite.
  [[nodiscard]] bool usable() const { return usable_; }
  /// ‖g' - g‖ / ‖g‖, g the gradient of all parameters as one vector. Infinite where g' is not
  /// finite.
  [[nodiscard]] double error_of(const std::shared_ptr<const TreatmentPlan>& plan);
  /// Backward passes so far.
  [[nodiscard]] int passes() const { return passes_; }

 private:
  [[nodiscard]] std::vector<at::Tensor> run();

  Rehearsal& rehearsal_;
  const BackwardAgain& again_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> exact_;
  double exact_squared_ = 0;
  bool usable_ = false;
  int passes_ = 0;
};

}  // namespace noisemark::memopt
