#pragma once

#include "memopt/codecs/arithmetic/jobs.h"

namespace c10 {
struct Device;
}  // namespace c10

namespace noisemark::memopt::codecs {

/// The codecs' work on one kind of device (jobs.h). On a GPU it is issued to the current stream of
/// the current device.
class CodecDevice {
 public:
  virtual ~CodecDevice() = default;
  virtual void encode(const FieldJob& job) const = 0;
  virtual void decode(const FieldJob& job) const = 0;
  virtual void encode(const GroupJob& job) const = 0;
  virtual void decode(const GroupJob& job) const = 0;
  virtual void encode(const SparseJob& job) const = 0;
  virtual void decode(const SparseJob& job) const = 0;
  /// The Extent of all elements.
  virtual void find_extent(const SearchJob& job) const = 0;
  /// The bits of some element that is not zero; 0 when there is none.
  virtual void find_nonzero(const SearchJob& job) const = 0;
};

/// Splits jobs among at::get_num_threads() threads.
[[nodiscard]] const CodecDevice& cpu_codec_device();

}  // namespace noisemark::memopt::codecs

namespace noisemark::memopt {

/// Returns null when this build has no codecs for the device.
[[nodiscard]] const codecs::CodecDevice* find_codec_device(c10::Device device);

}  // namespace noisemark::memopt
