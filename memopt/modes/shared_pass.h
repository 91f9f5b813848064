#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "memopt/modes/planned_mode.h"

namespace noisemark::memopt {

/// A pass for which there are several plans: each keeps or holds what it needs of it, until the
/// pass leaves its path. One of them is the pass that the mode is at work on, whatever its phase.
/// Thread-safe, since a backward may come while the forward pass goes on.
class PlannedMode::SharedPass : public std::enable_shared_from_this<SharedPass> {
 public:
  /// `mode` is asked while the forward pass runs, and must outlive that.
  SharedPass(PlannedMode& mode, std::vector<Alternative> alternatives);

  /// Makes the hooks of the next tensor that autograd saves.
  [[nodiscard]] std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks();

  /// The forward pass is over. Returns the alternative that it follows; one without a pass where it
  /// is the mode's own.
  [[nodiscard]] Alternative settle();

  /// Returns the plans that the pass went on under when it had begun, if there was another way
  /// too. Null is what the mode does without one, which is to keep everything.
  [[nodiscard]] const std::vector<std::shared_ptr<const TreatmentPlan>>& plans() const {
    return plans_;
  }

 private:
  using Hooks = torch::autograd::SavedVariableHooks;
  class SharedHooks;
  struct Way {
    Alternative alternative;  ///< the mode's own where there is no pass
    std::vector<std::shared_ptr<Hooks>> hooks;
  };

  /// Returns the tensor's number.
  size_t pack(const at::Tensor& tensor);
  [[nodiscard]] at::Tensor unpack(size_t number);
  void release(size_t number);

  [[nodiscard]] static bool is_own(const Way& way) { return way.alternative.pass == nullptr; }
  [[nodiscard]] bool departed(const Way& way) const;
  [[nodiscard]] bool is_complete(const Way& way) const;
  [[nodiscard]] std::shared_ptr<Hooks> hooks_of(const Way& way) const;
  void begin(const at::Tensor& tensor);
  void drop_departed();
  std::vector<Way>::iterator drop(std::vector<Way>::iterator way);

  PlannedMode& mode_;
  std::mutex mutex_;
  std::vector<Way> ways_;  ///< never empty
  size_t packed_ = 0;
  std::vector<std::shared_ptr<const TreatmentPlan>> plans_;
};

}  // namespace noisemark::memopt
