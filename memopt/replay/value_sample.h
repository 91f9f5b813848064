#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace noisemark::memopt {

/// A few elements of a tensor, by which it is known again when it has been made a second time:
/// their positions spread over the whole tensor without following its rows. Nothing of a tensor
/// that does not lie in the CPU's memory: to read it would stop the host.
class ValueSample {
 public:
  static constexpr int64_t kElements = 64;

  explicit ValueSample(const at::Tensor& tensor);
  /// Whether the same elements of `tensor` have the same bits. Of the same shape, strides and type.
  [[nodiscard]] bool fits(const at::Tensor& tensor) const;

 private:
  std::vector<std::byte> elements_;
};

}  // namespace noisemark::memopt
