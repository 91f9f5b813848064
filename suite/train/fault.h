#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memopt/accounting/allocation_source.h"
#include "memopt/autograd/saved_tensor_scope.h"

namespace noisemark::suite {

/// The faults made on purpose in a training, so that a self-test can show that it is noticed. Parts
/// are handed one as a value and break themselves by it; the default breaks nothing. No option, key
/// or variable of the command line leads here.
struct Fault {
  int64_t leaked_bytes = 0;           ///< bytes that every forward pass allocates, and the trainer
                                      ///< holds
  std::optional<double> loss_factor;  ///< times every training loss, and so its gradients
  int64_t lost_bytes = 0;             ///< bytes of a weight that the walk of its owner does not see
  std::optional<int64_t> halved_from = std::nullopt;  ///< from this step on batches have half of
                                                      ///< their images: no pass is as recorded
  /// Masks of dropout under a mode other than "none" are drawn again when backward asks for them,
  /// from where the generator then is, as by a recomputation that does not restore it.
  bool redrawn_dropout = false;
  /// Saved activations under a mode other than "none" come back at 2 bits between the smallest
  /// and the largest of the whole tensor, as of "q2" without scales of groups.
  bool coarse_saving = false;
  bool undivided_loss = false;  ///< gradients of micro-batches are added up, not averaged
  bool late_average = false;    ///< the average takes the weights of the step before

  bool operator==(const Fault&) const = default;
};

/// "16.00 MiB leaked in every forward pass"; empty for a fault that breaks nothing.
[[nodiscard]] std::string fault_words(const Fault& fault);

/// Stands between autograd and a memory mode in a self-test, and hands out other values than were
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
  /// Returns what comes back in place of `value`.
  [[nodiscard]] at::Tensor broken(const at::Tensor& value) const;
  [[nodiscard]] bool is_parameter(const at::Tensor& value) const;
  [[nodiscard]] bool is_dropout_mask(const at::Tensor& value) const;

  class Hooks;

  memopt::SavedTensorSink& inner_;
  Fault fault_;
  std::vector<at::Tensor> parameters_;
  double keep_frac_;
};

/// Returns whether a fault has anything to do with saved tensors.
[[nodiscard]] bool breaks_saving(const Fault& fault);

/// A source that is wrong about one block: whoever looks the tensor's storage up hears of
/// `lost_bytes` fewer than there are, while the allocator's own figures and events stay true. So
/// the owners' sum must come out short. `source` must outlive it.
class ShortCount final : public memopt::AllocationSource {
 public:
  ShortCount(memopt::AllocationSource& source, const at::Tensor& tensor, int64_t lost_bytes);

  [[nodiscard]] std::string_view name() const override { return source_.name(); }
  memopt::AllocationBaseline attach(memopt::AllocationListener& listener) override;
  void detach() override { source_.detach(); }
  [[nodiscard]] std::optional<memopt::Block> find(const c10::StorageImpl& storage) const override;
  [[nodiscard]] int64_t live_bytes() const override { return source_.live_bytes(); }
  [[nodiscard]] int64_t take_high_bytes() override { return source_.take_high_bytes(); }

 private:
  memopt::AllocationSource& source_;
  const at::Tensor tensor_;
  int64_t lost_bytes_;
};

}  // namespace noisemark::suite
