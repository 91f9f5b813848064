#pragma once

#include <cstdint>
#include <type_traits>

#include "memopt/codecs/arithmetic/bits.h"

/// The floating types that codecs take, as bits. `load` gives binary32 bits, exactly; `store` takes
/// them and rounds to nearest even; NaN stays NaN. A finite value to be stored is at most kLargest,
/// so that it stays finite. kFinite: the value is.
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
  static constexpr int kPlaces = kMantissa;                 ///< places behind the point
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;  ///< it is the largest exponent too
  static constexpr uint32_t kSign = 1U << (kBits - 1);
  static constexpr uint32_t kInfinity = ((1U << kExponent) - 1) << kMantissa;
  static constexpr uint32_t kLargest = kInfinity - 1;

  /// Encodes value * scale; `scale` is a power of two, so that only the rounding here loses bits.
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
  // Both are the bits of a float32.
  static constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
  static constexpr uint32_t kLargestBits = (kLargest << kDropped) + (kRebias << kDropped);
};

/// IEEE binary16.
using Half = SmallFloat<5, 10>;

enum class Real : uint8_t { kFloat32, kBFloat16, kFloat16 };

struct Float32 {
  using Bits = uint32_t;
  static constexpr Bits kOne = 0x3f800000;
  static constexpr Bits kInfinity = kInfinityBits;
  static constexpr uint32_t kLargest = kInfinityBits - 1;
  template <bool kFinite = false>
  static NOISEMARK_SHARED uint32_t load(Bits bits) {
    return bits;
  }
  template <bool kFinite = false>
  static NOISEMARK_SHARED Bits store(uint32_t bits) {
    return bits;
  }
};

struct BFloat16 {
  using Bits = uint16_t;
  static constexpr Bits kOne = 0x3f80;
  static constexpr Bits kInfinity = 0x7f80;
  static constexpr uint32_t kLargest = 0x7f7f0000;
  template <bool kFinite = false>
  static NOISEMARK_SHARED uint32_t load(Bits bits) {
    return static_cast<uint32_t>(bits) << 16;
  }
  template <bool kFinite = false>
  static NOISEMARK_SHARED Bits store(uint32_t bits) {
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    if constexpr (kFinite) return static_cast<Bits>(rounded);
    // The quiet bit, so that a payload in the lost bits does not end as infinity.
    const bool nan = below(kInfinityBits, bits & kMagnitudeBits);
    return static_cast<Bits>(nan ? (bits >> 16) | 0x40U : rounded);
  }
};

struct Float16 {
  using Bits = uint16_t;
  static constexpr Bits kOne = 0x3c00;
  static constexpr Bits kInfinity = 0x7c00;
  static constexpr uint32_t kLargest = 0x477fe000;
  template <bool kFinite = false>
  static NOISEMARK_SHARED uint32_t load(Bits bits) {
    return Half::decode<kFinite>(bits, 1.0F);
  }
  template <bool kFinite = false>
  static NOISEMARK_SHARED Bits store(uint32_t bits) {
    return static_cast<Bits>(Half::encode<kFinite>(bits, 1.0F));
  }
};

/// Calls `body` with the type that `real` names, so that no loop asks for it.
template <typename Body>
void with_real(Real real, const Body& body) {
  switch (real) {
    case Real::kFloat32:
      return body(Float32{});
    case Real::kBFloat16:
      return body(BFloat16{});
    case Real::kFloat16:
      return body(Float16{});
  }
}

/// The magnitudes of a whole storage, as one word: bits of the largest finite magnitude as
/// binary32, and the sign bit where there are elements that are not finite.
using Extent = uint32_t;

/// Collects an Extent in the type's own width.
template <typename Type>
struct ExtentSearch {
  using Bits = typename Type::Bits;
  using Signed = std::make_signed_t<Bits>;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));

  Bits largest = 0;
  Bits specials = 0;  ///< its sign bit

  /// An element's magnitude; where it is not finite kSign, which is below all others as signed.
  static NOISEMARK_SHARED Bits entry_of(Bits bits) {
    const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
    const bool finite = static_cast<Signed>(magnitude) < static_cast<Signed>(Type::kInfinity);
    return finite ? magnitude : kSign;
  }
  NOISEMARK_SHARED void take(Bits bits) {
    const Bits entry = entry_of(bits);
    specials = static_cast<Bits>(specials | entry);
    if (entry != kSign) largest = larger(largest, entry);
  }
  NOISEMARK_SHARED Extent extent() const {
    return Type::load(largest) | ((specials & kSign) != 0 ? kSignBit : 0U);
  }
};

NOISEMARK_SHARED Extent joined(Extent a, Extent b) {
  const uint32_t largest = larger(a & kMagnitudeBits, b & kMagnitudeBits);
  return largest | ((a | b) & kSignBit);
}
NOISEMARK_SHARED bool all_finite(Extent extent) {
  return (extent & kSignBit) == 0;
}

/// The exponent k of a storage's scale 2^k: it takes the largest finite magnitude into
/// [2^top, 2^(top + 1)); where 2^k would be no normal number, below. 0 and denormals count as
/// 2^-127.
NOISEMARK_SHARED int scale_exponent(Extent extent, int top) {
  const int exponent = static_cast<int>((extent & kMagnitudeBits) >> 23) - 127;
  return smaller(top - exponent, 126);
}

/// The extent whose largest magnitude is that which the finite ones of `extent` round up to with so
/// many bits of mantissa: a scale that is made for it cuts off none of them. Where no float32 is so
/// large, `extent` itself.
NOISEMARK_SHARED Extent rounded_up(Extent extent, int mantissa_bits) {
  const uint32_t rounded = (extent & kMagnitudeBits) + (1U << (22 - mantissa_bits));
  return below(rounded, kInfinityBits) ? rounded : extent;
}

}  // namespace noisemark::memopt::codecs
