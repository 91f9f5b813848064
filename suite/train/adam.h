#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "suite/config/definition.h"
#include "suite/io/safetensors.h"
#include "suite/parallel/shards.h"

namespace noisemark::suite {

/// The joint L2 norm, a scalar tensor.
[[nodiscard]] at::Tensor norm_of(const std::vector<at::Tensor>& gradients);

/// Scales gradients in place so that their joint L2 norm, which is `norm`, is at most `max_norm`,
/// as torch.nn.utils.clip_grad_norm_ does (factor max_norm / (norm + 1e-6), never above 1). A norm
/// that is NaN scales nothing, so that the gradient it comes from can still be told from the
/// others.
void clip_gradients(const std::vector<at::Tensor>& gradients, double max_norm,
                    const at::Tensor& norm);

/// The pieces under the names of their tensors, with which they share memory.
[[nodiscard]] NamedTensors pieces_of(const NamedTensors& tensors, const Pieces& pieces);

/// The learning rate of another batch than the one that it was chosen for.
struct RateScale {
  double factor = 1;
  int64_t warmup_steps = 0;  ///< steps in which it rises from 1 to the factor
};

/// Returns the scale by the definition's rule.
[[nodiscard]] RateScale rate_scale(const Definition& definition);

/// Adam (Kingma & Ba 2015) with torch.optim.Adam's arithmetic and without weight decay, by ATen's
/// fused kernel. The learning rate rises linearly over the first `warmup_steps` steps: step s (from
/// 0) uses lr * min(1, (s + 1) / warmup_steps). A scale multiplies it by 1 + (factor - 1) *
/// min(1, (s + 1) / its warmup_steps).
class Adam {
 public:
  /// `parameters` are shared with the model. State is allocated at once, so that every step costs
  /// the same memory. `own`: the pieces of the parameters that are updated; empty: all of each.
  Adam(NamedTensors parameters, const OptimizerConfig& config,
       std::optional<Pieces> own = std::nullopt, const RateScale& scale = {});

  /// Updates every parameter, or the own pieces, from its gradient. A parameter without one is a
  /// programming error. `found_inf`: a scalar tensor; when it is not 0 the update is skipped on the
  /// device (loss scaling).
  void step(const std::optional<at::Tensor>& found_inf = std::nullopt);

  /// step() in two halves, for a step that a device repeats without the host: what the device does,
  /// which reads everything that changes from step to step in its own memory, and what the host
  /// does before every repetition. `found_inf` as for step().
  void issue(const at::Tensor& found_inf);
  void prepare_issued();
  /// Must be called after every repetition.
  void count_issued() { ++steps_taken_; }

  [[nodiscard]] double learning_rate(int64_t step) const;
  /// Whole, those of all parameters; but a parameter of which no piece is updated may have none.
  [[nodiscard]] std::vector<at::Tensor> gradients() const;
  void release_gradients();

  /// "adam.exp_avg.NAME", "adam.exp_avg_sq.NAME", "adam.step.NAME", of each parameter or own piece:
  /// shared with the optimizer, so copying into them restores it.
  [[nodiscard]] NamedTensors state() const;
  void restore_steps_taken(int64_t steps) { steps_taken_ = steps; }

 private:
  /// Returns the gradients of the tensors that are updated here.
  [[nodiscard]] std::vector<at::Tensor> own_gradients() const;
  [[nodiscard]] bool has_piece(size_t parameter) const;

  NamedTensors parameters_;
  OptimizerConfig config_;
  RateScale scale_;
  std::optional<Pieces> own_;
  std::vector<std::string> names_;  // names of the weights that are updated
  /// It is undefined while the rate is the same in every step.
  [[nodiscard]] const at::Tensor& rate_on_device();

  std::vector<at::Tensor> weights_, exp_avg_, exp_avg_sq_, steps_;
  at::Tensor rate_;
  int64_t steps_taken_ = 0;
};

}  // namespace noisemark::suite
