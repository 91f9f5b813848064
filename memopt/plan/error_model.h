#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "memopt/plan/options.h"

namespace noisemark::memopt {

/// The error that the options are expected to add to the squared relative error of a step's
/// gradient, block by block, and how much all of them together may add. Errors of different blocks
/// are taken to be uncorrelated, so that their squares add up.
struct ErrorModel {
  std::vector<std::vector<double>> squared;  ///< one for each option of each block; is empty where
                                             ///< no option rounds
  double limit_squared = std::numeric_limits<double>::infinity();

  [[nodiscard]] double of(size_t block, size_t option) const {
    return squared.empty() ? 0 : squared[block][option];
  }
  [[nodiscard]] double of(const std::vector<size_t>& chosen) const;
  [[nodiscard]] bool allows(const std::vector<size_t>& chosen) const {
    return of(chosen) <= limit_squared;
  }
  /// Every option that rounds is expected to add `factor` times as much.
  void scale(double factor);
  /// Every option is expected to add what it adds in the worse of two models of the same options.
  void take_larger(const ErrorModel& other);
  /// No option that rounds is allowed anywhere.
  void forbid_rounding(const std::vector<BlockOption>& options);
};

/// The relative error of the gradient under a plan, measured.
using MeasureError = std::function<double(const std::shared_ptr<const TreatmentPlan>&)>;

/// Makes the model from one measurement for each way to round, with all blocks rounded, and one for
/// each block, with that block alone rounded by the middle one of them: a block's share of the
/// error is taken to be the same for all. What is recomputed from rounded values is taken to be as
/// wrong as what is rounded itself.
[[nodiscard]] ErrorModel measured_error_model(const BlockOptions& options,
                                              const MeasureError& error_of, double limit);

}  // namespace noisemark::memopt
