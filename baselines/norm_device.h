#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "baselines/kernels/group_norm.h"
#include "baselines/kernels/rms_norm.h"

namespace noisemark::baselines {

/// The fused norms on one kind of device: all tasks of a job. On a GPU it is issued to the current
/// stream of the current device.
class NormDevice {
 public:
  virtual ~NormDevice() = default;
  virtual void forward(const kernels::GroupNorm<float>& job) const = 0;
  virtual void forward(const kernels::GroupNorm<kernels::BFloat16>& job) const = 0;
  virtual void from_statistics(const kernels::GroupNorm<float>& job) const = 0;
  virtual void from_statistics(const kernels::GroupNorm<kernels::BFloat16>& job) const = 0;
  virtual void backward(const kernels::GroupNorm<float>& job) const = 0;
  virtual void backward(const kernels::GroupNorm<kernels::BFloat16>& job) const = 0;

  virtual void forward(const kernels::RmsNorm<float>& job) const = 0;
  virtual void forward(const kernels::RmsNorm<kernels::BFloat16>& job) const = 0;
  virtual void from_statistics(const kernels::RmsNorm<float>& job) const = 0;
  virtual void from_statistics(const kernels::RmsNorm<kernels::BFloat16>& job) const = 0;
  virtual void backward(const kernels::RmsNorm<float>& job) const = 0;
  virtual void backward(const kernels::RmsNorm<kernels::BFloat16>& job) const = 0;

  /// For GroupNorm::groups_per_task.
  [[nodiscard]] virtual int64_t groups_per_task(const kernels::Shape& shape, int64_t groups,
                                                int64_t element_bytes) const = 0;
};

/// Null when this build has no fused norms for the device. device_parts.cpp is the one file of this
/// folder that knows which were built.
[[nodiscard]] const NormDevice* find_norm_device(c10::Device device);

}  // namespace noisemark::baselines
