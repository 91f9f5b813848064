#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memopt/codecs/codec.h"
#include "memopt/record/step_graph.h"
#include "memopt/replay/sample_device.h"

namespace noisemark::memopt {

/// Returns whether two tensors of one device have the same shape, strides and type, and the same
/// bits: -0 is not 0, and a NaN is itself. Waits for the device.
[[nodiscard]] bool same_bits(const at::Tensor& a, const at::Tensor& b);

/// The elements of a tensor of any layout, of which a complex one is two in its row.
[[nodiscard]] at::Tensor real_elements(const at::Tensor& tensor);

/// A few elements of a tensor, by which it is known again when it has been made a second time:
/// their positions spread over the whole tensor without following its rows. None of a tensor
/// without memory.
[[nodiscard]] replay::SampledElements sample_of(const at::Tensor& tensor);

/// The digest of such a sample of a tensor in the CPU's memory.
class ValueSample {
 public:
  explicit ValueSample(const at::Tensor& tensor);
  /// Returns whether the same elements of `tensor` have the same bits. Both tensors
  /// have the same shape, strides and type.
  [[nodiscard]] bool fits(const at::Tensor& tensor) const;

 private:
  uint64_t digest_ = 0;
};

/// The knowledge that a device alone has of the values that were recomputed on it: whether each was
/// what forward had. One number in its memory, 0 or that of a value that was not, which stays until
/// it is taken. It is used by one thread, but for flag().
class DeviceDoubt {
 public:
  /// `kernels`: of the device. Allocates the number.
  DeviceDoubt(c10::Device device, const replay::SampleDevice& kernels);

  [[nodiscard]] c10::Device device() const { return flag_.device(); }
  [[nodiscard]] const replay::SampleDevice& kernels() const { return kernels_; }
  /// Returns the flag, int32 [1], on the device.
  [[nodiscard]] const at::Tensor& flag() const { return flag_; }

  /// Waits for the current stream. The number is 0 afterwards.
  [[nodiscard]] int32_t take();
  /// Returns whether it is 0, once the work that was issued so far has been done. It must not be
  /// called while work is recorded for repetition.
  [[nodiscard]] std::unique_ptr<DeviceAnswer> ask() const;

 private:
  at::Tensor flag_;
  const replay::SampleDevice& kernels_;
};

/// Samples of what the slots of one pass saved, for what is recomputed to be compared with
/// (ValueSample). Tensors of a CPU are compared at once. Those of another device are compared
/// there, where a DeviceDoubt is given: it has the number of a slot, from 1, that did not get what
/// forward had. It is used under one lock.
class ValueSamples {
 public:
  /// `doubt`: may be null. Tensors of its device are compared by it, a CPU's too.
  ValueSamples(size_t slots, std::shared_ptr<DeviceDoubt> doubt);

  /// `tensor` is saved by `slot`, which does not keep it.
  void take(SlotId slot, const at::Tensor& tensor);
  /// Returns false where what the slot gets is known to be something else than it saved. Both
  /// have the same shape, strides and type.
  [[nodiscard]] bool fits(SlotId slot, const at::Tensor& made_again);

  [[nodiscard]] static int32_t number_of(SlotId slot) { return static_cast<int32_t>(slot) + 1; }
  [[nodiscard]] static SlotId slot_of(int32_t number) { return SlotId(number - 1); }

 private:
  [[nodiscard]] bool is_compared_late(const at::Tensor& tensor) const;
  [[nodiscard]] uint64_t* digest_at(SlotId slot);

  std::vector<std::optional<ValueSample>> here_;
  std::vector<bool> late_;  ///< a slot's digest is on the device
  const std::shared_ptr<DeviceDoubt> doubt_;
  at::Tensor digests_;  ///< int64 [slots], on the device of `doubt_`; undefined before the first
};

/// The error of a slot that did not get what it saved.
[[nodiscard]] std::string not_what_forward_had(const StepGraph& graph, SlotId slot);

}  // namespace noisemark::memopt
