#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <memory>
#include <string>

namespace noisemark::memopt {

/// Times work on a device without stopping it: marks are put into the device's own order of work
/// and read afterwards. On a CPU a mark is the steady clock. It is used by one thread.
class DeviceClock {
 public:
  using Mark = size_t;
  virtual ~DeviceClock() = default;
  /// A mark after the work issued so far by this thread.
  virtual Mark mark() = 0;
  /// Waits until the device has done what was issued so far.
  virtual void synchronize() = 0;
  /// Returns the seconds between two marks; the device must have passed both (synchronize() after
  /// the later one).
  [[nodiscard]] virtual double seconds_between(Mark begin, Mark end) const = 0;
  /// Forgets all marks.
  virtual void clear() = 0;

  /// The device begins nothing of what this thread issues from now on until the next hold() has
  /// been issued or release() is called, and `longest_s` at most. What is issued meanwhile then
  /// lies ready, so that marks tell the device's own time and not how fast the host issues. Who
  /// waits for the device in between waits until the time is over. A queue takes so much (CUDA:
  /// about a thousand launches) before it makes the host wait, too: hold short stretches. Nothing
  /// on a CPU, which works as it is told.
  virtual void hold(double longest_s) = 0;
  virtual void release() = 0;
};

/// Throws c10::Error for a device that this build or machine does not support.
[[nodiscard]] std::unique_ptr<DeviceClock> make_device_clock(c10::Device device);

/// The model of device that measured times hold for: a GPU's name; for a CPU, the instruction
/// set of the kernels, since a process runs on no other processor; of any other device what it is
/// called.
[[nodiscard]] std::string device_model(c10::Device device);

}  // namespace noisemark::memopt
