#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "memopt/codecs/codec.h"
#include "memopt/replay/sample_device.h"

namespace noisemark::memopt {

/// What a device alone knows of the values that were made again on it: whether each was what
/// forward had. One number in its memory, 0 or that of a value that was not, which stays until it
/// is taken. Used by one thread, but for flag().
class DeviceDoubt {
 public:
  /// `kernels`: of the device. Allocates the number.
  DeviceDoubt(c10::Device device, const replay::SampleDevice& kernels);

  [[nodiscard]] c10::Device device() const { return flag_.device(); }
  [[nodiscard]] const replay::SampleDevice& kernels() const { return kernels_; }
  /// int32 [1], on the device.
  [[nodiscard]] const at::Tensor& flag() const { return flag_; }

  /// Waits for the current stream. The number is 0 afterwards.
  [[nodiscard]] int32_t take();
  /// Whether it is 0, once the work that was issued so far has been done. Not while work is
  /// recorded for repetition.
  [[nodiscard]] std::unique_ptr<Verdict> ask() const;

 private:
  at::Tensor flag_;
  const replay::SampleDevice& kernels_;
};

}  // namespace noisemark::memopt
