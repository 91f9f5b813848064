#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

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

  /// Returns the number for GroupNorm::groups_per_task.
  [[nodiscard]] virtual int64_t groups_per_task(const kernels::Shape& shape, int64_t groups,
                                                int64_t element_bytes) const = 0;
};

/// Returns null when this build has no fused norms for the device. device_parts.cpp is the one file
/// of this folder that knows which were built.
[[nodiscard]] const NormDevice* find_norm_device(c10::Device device);

/// Work that a device repeats without the host issuing it again: a CUDA graph. The memory that the
/// work takes is the graph's own from then on, at fixed addresses; torch's generator of the device
/// may be seeded before every repetition.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Runs `work` on the stream that is recorded later: what libraries make when they are first
  /// called on a stream must be there by then. What was issued before comes before it, what is
  /// issued after comes after it.
  virtual void warm_up(const std::function<void()>& work) = 0;
  /// Records what `work` issues; nothing of it runs. Call it once. Throws what `work` throws.
  virtual void capture(const std::function<void()>& work) = 0;
  /// Issues all that was recorded, to the current stream.
  virtual void replay() = 0;
  /// Returns the bytes of the device's memory that nobody but repetitions may use. Call it after
  /// capture().
  [[nodiscard]] virtual int64_t own_bytes() = 0;
};

/// Returns null where this build has no graphs for the device.
[[nodiscard]] std::unique_ptr<DeviceGraph> make_device_graph(c10::Device device);
/// The graph of a CUDA device, for make_device_graph(). It is recorded on a stream of its own.
[[nodiscard]] std::unique_ptr<DeviceGraph> make_cuda_graph(c10::Device device);

}  // namespace noisemark::baselines
