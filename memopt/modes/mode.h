#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/autograd/model_view.h"
#include "memopt/autograd/saved_tensor_scope.h"

namespace noisemark::memopt {

/// Replaces what autograd saves for backward. A mode is attached to one model and serves one
/// thread's training steps; it touches neither the model nor the trainer. Calls come in this order,
/// and an exception may end a step anywhere:
///   attach, then per optimizer step: begin_step, (make_hooks ...), end_step, check_step.
class Mode : public SavedTensorSink {
 public:
  /// Canonical spelling, as in results.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns true when every gradient is bitwise what mode "none" gives.
  [[nodiscard]] virtual bool lossless() const = 0;

  virtual void attach(const ModelView& model) = 0;
  /// It is called before the first forward of optimizer step `step`. Like a scope of the mode it
  /// throws std::logic_error where the mode needs to know the model and attach() was not called. A
  /// budget must know which passes are a step: there a scope outside of a step, or around its
  /// begin, is such an error too.
  virtual void begin_step(int64_t step) = 0;
  /// It is called after the last backward, also when the step failed. Afterwards the mode holds
  /// nothing of the step.
  virtual void end_step() = 0;
  /// Throws c10::Error where a gradient of the step is not that of what its forward passes did, as
  /// backward does where the host knows it by itself. What only the device knows is asked for here,
  /// so this waits for it: call it where the host has just waited, for the loss say, and before the
  /// gradients are used. Call it for steps that the device repeated alone. Who never calls it has
  /// the error from begin_step() of a later step.
  virtual void check_step() {}

  /// Forward passes from attach() until the mode does what its name says: it may first watch some.
  [[nodiscard]] virtual int64_t forwards_until_steady() const { return 0; }
  /// Returns whether a step that begins now does what the last one did, without deciding anything
  /// new, so that it can be recorded and repeated.
  [[nodiscard]] virtual bool steady() const { return true; }
  /// The tensors that it holds beyond the saved variables themselves and outside OwnerScopes:
  /// counted as activations. Asked between operators.
  [[nodiscard]] virtual std::vector<at::Tensor> held() const { return {}; }
};

struct ModeEntry {
  std::string_view name;     ///< the mode as TOML and the command line write it
  std::string_view summary;  ///< one line for `noisemark list`
  bool lossless;
};

/// The modes of one part each and those of replaying, which mode_grammar.h composes ("A+B": B is
/// applied to what A keeps), and an example of a limit of host memory and of each kind of budget.
/// Constant table, in the order reports show them; "none" is first.
[[nodiscard]] const std::vector<ModeEntry>& modes();

/// Builds the mode of a canonical spelling. Throws std::invalid_argument that names the nearest
/// valid one.
[[nodiscard]] std::unique_ptr<Mode> make_mode(std::string_view spelling);

/// Says why every step of a mode needs the host, so that a device cannot repeat one alone;
/// empty: not by its name, though the plan it makes may turn out to (repeated_work.h). Throws
/// std::invalid_argument as make_mode() does.
[[nodiscard]] std::string why_host_is_needed(std::string_view spelling);

}  // namespace noisemark::memopt
