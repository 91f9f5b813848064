#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/bits.h"

namespace noisemark::memopt::codecs {

/// A float of 1 sign bit, kExponent exponent and kMantissa mantissa bits, laid out as IEEE 754 lays
/// out its own: bias 2^(kExponent-1) - 1, subnormals where the exponent field is 0, infinity and
/// NaN where it is all ones. <5, 10> is IEEE binary16. From binary32: round to nearest, ties to
/// even; a finite value never becomes infinite but the largest finite one (saturation); infinity
/// stays; NaN stays NaN with its sign and the leading bits of its payload. Specials take integer
/// paths, because processors differ in the NaN that arithmetic gives.
template <int kExponent, int kMantissa>
struct SmallFloat {
  static constexpr int kBits = 1 + kExponent + kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;  ///< also the largest exponent
  static constexpr uint32_t kSign = 1U << (kBits - 1);
  static constexpr uint32_t kInfinity = ((1U << kExponent) - 1) << kMantissa;
  static constexpr uint32_t kLargest = kInfinity - 1;

  /// Of value * scale; `scale` is a power of two, so that only the rounding here loses bits.
  /// kFinite: the value is.
  template <bool kFinite = false>
  static NOISEMARK_SHARED uint32_t encode(uint32_t value_bits, float scale) {
    const uint32_t magnitude = value_bits & kMagnitudeBits;
    const uint32_t sign = (value_bits & kSignBit) >> (32 - kBits);
    const uint32_t scaled = bits_of(float_of(magnitude) * scale);
    const uint32_t bits = below(scaled, kLargestBits) ? scaled : kLargestBits;
    const uint32_t own_exponent = bits & kInfinityBits;
    const uint32_t exponent = below(own_exponent, kSmallestNormal) ? kSmallestNormal : own_exponent;
    // The sum's last place is that of the format at this exponent, so the addition rounds. What it
    // adds to the aligner is the mantissa with its leading one, if it has one.
    const uint32_t aligner = exponent + (kDropped << 23);
    const uint32_t mantissa = bits_of(float_of(bits) + float_of(aligner)) - aligner;
    const uint32_t finite = mantissa + ((exponent - kSmallestNormal) >> kDropped);
    if constexpr (kFinite) return finite | sign;
    const uint32_t payload = (magnitude & kMantissaBits) >> kDropped;
    const uint32_t nan = kInfinity + (payload == 0 ? 1U : payload);
    const uint32_t special = below(kInfinityBits, magnitude) ? nan : kInfinity;
    return (below(magnitude, kInfinityBits) ? finite : special) | sign;
  }

  /// binary32 bits of the code's value * scale. kFinite: the value is.
  template <bool kFinite = false>
  static NOISEMARK_SHARED uint32_t decode(uint32_t code, float scale) {
    const uint32_t magnitude = code & (kSign - 1);
    const uint32_t sign = (code & kSign) << (32 - kBits);
    const uint32_t shifted = magnitude << kDropped;
    const float normal = float_of(shifted + (kRebias << kDropped));
    const float subnormal = float_of(shifted + kSmallestNormal) - float_of(kSmallestNormal);
    const float finite = (below(magnitude, 1U << kMantissa) ? subnormal : normal) * scale;
    if constexpr (kFinite) return bits_of(finite) | sign;
    const uint32_t special = kInfinityBits | (shifted & kMantissaBits);
    return (below(magnitude, kInfinity) ? bits_of(finite) : special) | sign;
  }

 private:
  static constexpr uint32_t kDropped = 23 - kMantissa;
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << kMantissa;
  // As binary32.
  static constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
  static constexpr uint32_t kLargestBits = (kLargest << kDropped) + (kRebias << kDropped);
};

/// IEEE binary16.
using Half = SmallFloat<5, 10>;

}  // namespace noisemark::memopt::codecs
