#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace noisemark::baselines {

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
  /// Records what `work` issues; nothing of it runs. Once. Throws what `work` throws.
  virtual void capture(const std::function<void()>& work) = 0;
  /// Issues all that was recorded, to the current stream.
  virtual void replay() = 0;
  /// Returns the bytes of the device's memory that nobody but repetitions may use. Call it after
  /// capture().
  [[nodiscard]] virtual int64_t own_bytes() = 0;
};

/// Null where this build has no graphs for the device.
[[nodiscard]] std::unique_ptr<DeviceGraph> make_device_graph(c10::Device device);

}  // namespace noisemark::baselines
