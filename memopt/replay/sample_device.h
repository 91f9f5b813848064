#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/bits.h"

namespace c10 {
enum class DeviceType : int8_t;
}  // namespace c10

/// A few elements of a tensor become one number here, in text that the CPU and the GPU share, so
/// that both get the same. C++17, no torch, no CUDA header.
namespace noisemark::memopt::replay {

/// The places of the elements. It is passed to a kernel as it is.
struct SampledElements {
  static constexpr int kMost = 64;
  const unsigned char* data = nullptr;
  int32_t count = 0;            ///< number of `offsets`
  int32_t element_bytes = 0;    ///< any
  int64_t offsets[kMost] = {};  ///< distances from `data` in bytes
};

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014), which is one to one.
NOISEMARK_SHARED uint64_t mixed(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31);
}

/// The share of the `index`-th element. The digest of a sample is the sum of these, modulo 2^64, in
/// any order. Another value of one element always gives another sum; of several, but for one case
/// in 2^64.
NOISEMARK_SHARED uint64_t share_of_digest(const SampledElements& sample, int32_t index) {
  constexpr int32_t kWordBytes = 8;
  const unsigned char* element = sample.data + sample.offsets[index];
  uint64_t share = mixed(static_cast<uint64_t>(index) + 1);
  for (int32_t begin = 0; begin < sample.element_bytes; begin += kWordBytes) {
    const int32_t left = sample.element_bytes - begin;
    const int32_t bytes = left < kWordBytes ? left : kWordBytes;
    uint64_t word = 0;
    for (int32_t b = 0; b < bytes; ++b) {
      word |= static_cast<uint64_t>(element[begin + b]) << (8 * b);
    }
    share = mixed(share ^ word);
  }
  return share;
}

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

namespace noisemark::memopt {

/// Returns null when this build compares no values on the device.
[[nodiscard]] const replay::SampleDevice* find_sample_device(c10::DeviceType device);

}  // namespace noisemark::memopt
