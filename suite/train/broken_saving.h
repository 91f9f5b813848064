#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "memopt/saved_tensor_scope.h"
#include "suite/train/fault.h"

namespace noisemark::suite {

/// What a self-test puts between autograd and a memory mode: hands out other values than were
/// saved, as Fault::redrawn_dropout and Fault::coarse_saving say.
class BrokenSaving final : public memopt::SavedTensorSink {
 public:
  /// `inner` must outlive it. Parameters come back as they are; `keep_frac` is the share that
  /// dropout keeps, 1 where there is none.
  BrokenSaving(memopt::SavedTensorSink& inner, const Fault& fault,
               std::vector<at::Tensor> parameters, double keep_frac);

  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override;
  void begin_forward() override { inner_.begin_forward(); }
  void end_forward() override { inner_.end_forward(); }

 private:
  /// What comes back in place of `value`.
  [[nodiscard]] at::Tensor broken(const at::Tensor& value) const;
  [[nodiscard]] bool is_parameter(const at::Tensor& value) const;
  [[nodiscard]] bool is_dropout_mask(const at::Tensor& value) const;

  class Hooks;

  memopt::SavedTensorSink& inner_;
  Fault fault_;
  std::vector<at::Tensor> parameters_;
  double keep_frac_;
};

/// Whether a fault has anything to do with saved tensors.
[[nodiscard]] bool breaks_saving(const Fault& fault);

}  // namespace noisemark::suite
