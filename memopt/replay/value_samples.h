#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memopt/record/step_graph.h"
#include "memopt/replay/device_doubt.h"
#include "memopt/replay/value_sample.h"

namespace noisemark::memopt {

/// What the slots of one pass saved, by samples, for what is made again to be compared with
/// (replay/value_sample.h). Tensors of a CPU are compared at once. Those of another device are
/// compared there, where a DeviceDoubt is given: it has the number of a slot, from 1, that did not
/// get what forward had. Used under one lock.
class ValueSamples {
 public:
  /// `doubt`: may be null. Tensors of its device are compared by it, a CPU's too.
  ValueSamples(size_t slots, std::shared_ptr<DeviceDoubt> doubt);

  /// `tensor` is saved by `slot`, which does not keep it.
  void take(SlotId slot, const at::Tensor& tensor);
  /// False where what the slot gets is known to be something else than it saved. Of the same shape,
  /// strides and type.
  [[nodiscard]] bool fits(SlotId slot, const at::Tensor& made_again);

  [[nodiscard]] static int32_t number_of(SlotId slot) { return slot + 1; }
  [[nodiscard]] static SlotId slot_of(int32_t number) { return number - 1; }

 private:
  [[nodiscard]] bool is_compared_late(const at::Tensor& tensor) const;
  [[nodiscard]] uint64_t* digest_at(SlotId slot);

  std::vector<std::optional<ValueSample>> here_;
  std::vector<bool> late_;  ///< by slot: a digest is on the device
  const std::shared_ptr<DeviceDoubt> doubt_;
  at::Tensor digests_;  ///< int64 [slots], on the device of `doubt_`; undefined before the first
};

/// The error of a slot that did not get what it saved.
[[nodiscard]] std::string not_what_forward_had(const StepGraph& graph, SlotId slot);

}  // namespace noisemark::memopt
