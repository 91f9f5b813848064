#pragma once

#include <cstdint>

#include "memopt/replay/sampled_elements.h"

namespace noisemark::memopt::replay {

/// Takes and compares samples where they lie. On a GPU the work is issued to the current stream of
/// the current device, whose memory all pointers are to; the host learns nothing of it.
class SampleDevice {
 public:
  virtual ~SampleDevice() = default;
  /// The sample's digest.
  virtual void take(const SampledElements& sample, uint64_t* digest) const = 0;
  /// Writes `number`, which is not 0, to `*flag` where that is 0 and the sample's digest is not
  /// `*digest`.
  virtual void compare(const SampledElements& sample, const uint64_t* digest, int32_t number,
                       int32_t* flag) const = 0;
};

[[nodiscard]] const SampleDevice& cpu_sample_device();

}  // namespace noisemark::memopt::replay
