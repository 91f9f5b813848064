#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "memopt/replay/sampled_elements.h"

namespace noisemark::memopt {

/// A few elements of a tensor, by which it is known again when it has been made a second time:
/// their positions spread over the whole tensor without following its rows. None of a tensor
/// without memory.
[[nodiscard]] replay::SampledElements sample_of(const at::Tensor& tensor);

/// The digest of such a sample of a tensor in the CPU's memory.
class ValueSample {
 public:
  explicit ValueSample(const at::Tensor& tensor);
  /// Whether the same elements of `tensor` have the same bits. Of the same shape, strides and type.
  [[nodiscard]] bool fits(const at::Tensor& tensor) const;

 private:
  uint64_t digest_ = 0;
};

}  // namespace noisemark::memopt
