#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/bits.h"
#include "memopt/codecs/arithmetic/fields.h"
#include "memopt/codecs/arithmetic/floats.h"

/// Groups of 256 elements that follow each other in memory, each element minimum + code * step, all
/// of it times a power of two that is common to the tensor. Codes lie as in fields.h. The rounding
/// is stochastic: the expected code is the exact one to within 2^-17. A group with an element that
/// is not finite decodes to NaN throughout, so that a diverging run cannot look healthy.
namespace noisemark::memopt::codecs {

struct PhiloxWords {
  uint32_t word[4];
};

/// Philox 4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), with its
/// usual 10 rounds: four random words from a counter and a key.
template <int kRounds = 10>
NOISEMARK_SHARED PhiloxWords philox(PhiloxWords counter, uint32_t key_low, uint32_t key_high) {
  // Recursion instead of a loop: vectorisers then find no loop inside the caller's.
  if constexpr (kRounds == 0) {
    return counter;
  } else {
    const uint64_t product0 = static_cast<uint64_t>(counter.word[0]) * 0xD2511F53U;
    const uint64_t product2 = static_cast<uint64_t>(counter.word[2]) * 0xCD9E8D57U;
    const uint32_t high0 = static_cast<uint32_t>(product0 >> 32);
    const uint32_t high2 = static_cast<uint32_t>(product2 >> 32);
    return philox<kRounds - 1>(
        {{high2 ^ counter.word[1] ^ key_low, static_cast<uint32_t>(product2),
          high0 ^ counter.word[3] ^ key_high, static_cast<uint32_t>(product0)}},
        key_low + 0x9E3779B9U, key_high + 0xBB67AE85U);
  }
}

constexpr int kGroupElements = 256;
constexpr int kGroupFields = kGroupElements / kLanes;

/// Below this power of two all scaled magnitudes lie, so that binary16 holds their differences.
constexpr int kGroupTop = 14;

/// A rounding depends on this and on the element's place: same key, same bits.
struct RoundingKey {
  uint32_t seed_low = 0;
  uint32_t seed_high = 0;
  uint32_t step = 0;
  uint32_t storage = 0;
};

/// Order of binary32 as order of integers; -0 comes before 0, NaN beyond the infinities.
NOISEMARK_SHARED int32_t ordered(uint32_t bits) {
  return static_cast<int32_t>(bits ^ ((bits & kSignBit) != 0 ? kMagnitudeBits : 0U));
}
NOISEMARK_SHARED uint32_t bits_of_ordered(int32_t key) {
  return static_cast<uint32_t>(key) ^ (key < 0 ? kMagnitudeBits : 0U);
}

struct GroupRange {
  int32_t lowest = 0x7fffffff;  ///< lowest value, in the form of ordered()
  int32_t highest = -0x7fffffff - 1;
};

/// A group's numbers: binary16 minimum in the lower half, step in the upper half.
struct GroupNumbers {
  uint32_t packed;
  float minimum;
  float step;
  float per_step;  ///< 0 where all elements are equal
};

NOISEMARK_SHARED GroupNumbers unpack_numbers(uint32_t packed) {
  const float minimum = float_of(Half::decode(packed & 0xffff, 1.0F));
  const float step = float_of(Half::decode(packed >> 16, 1.0F));
  return {packed, minimum, step, step > 0.0F ? 1.0F / step : 0.0F};
}

constexpr uint32_t kGroupIsNan = 0x7e007e00;

/// `last` is the largest code. The minimum is rounded down and the step up, so that every element
/// lies between two codes; else the rounding could not be unbiased.
NOISEMARK_SHARED GroupNumbers numbers_of(const GroupRange& range, float scale, float last) {
  const uint32_t low_bits = bits_of_ordered(range.lowest);
  const uint32_t high_bits = bits_of_ordered(range.highest);
  if ((low_bits & kMagnitudeBits) >= kInfinityBits ||
      (high_bits & kMagnitudeBits) >= kInfinityBits) {
    return {kGroupIsNan, 0.0F, 0.0F, 0.0F};
  }
  const float low = float_of(low_bits) * scale;
  const float high = float_of(high_bits) * scale;
  uint32_t minimum = Half::encode(bits_of(low), 1.0F);
  if (float_of(Half::decode(minimum, 1.0F)) > low) {
    const uint32_t below_zero = Half::kSign | 1U;
    minimum =
        (minimum & Half::kSign) != 0 ? minimum + 1 : (minimum == 0 ? below_zero : minimum - 1);
  }
  const float step = (high - float_of(Half::decode(minimum, 1.0F))) / last;
  uint32_t step_code = Half::encode(bits_of(step), 1.0F);
  if (float_of(Half::decode(step_code, 1.0F)) < step) ++step_code;
  return unpack_numbers(minimum | (step_code << 16));
}

/// Element to code; `random` is uniform in [0, 2^16).
NOISEMARK_SHARED uint32_t group_code(float scaled, const GroupNumbers& group, int32_t last,
                                     uint32_t random) {
  const float exact = (scaled - group.minimum) * group.per_step;
  const int32_t below = smaller(static_cast<int32_t>(exact), last);
  const float rest = (exact - static_cast<float>(below)) * 65536.0F;
  const bool up = static_cast<float>(static_cast<int32_t>(random)) + 0.5F < rest;
  return static_cast<uint32_t>(smaller(below + (up ? 1 : 0), last));
}

/// Code to binary32 bits, of magnitude `largest` at most: the rounded step may lead beyond.
NOISEMARK_SHARED uint32_t group_value(uint32_t code, const GroupNumbers& group, float unscale,
                                      uint32_t largest) {
  const float scaled = group.minimum + static_cast<float>(static_cast<int32_t>(code)) * group.step;
  const uint32_t bits = bits_of(scaled * unscale);
  const uint32_t magnitude = bits & kMagnitudeBits;
  return (bits & kSignBit) | (below(magnitude, largest) ? magnitude : largest);
}

/// The codes of one lane's elements of a group, in the lower 8 * kBits bits.
template <bool kWhole, int kBits, typename Type>
NOISEMARK_SHARED uint32_t encode_group_lane(const GroupNumbers& numbers, const RoundingKey& key,
                                            const typename Type::Bits* x, int64_t group,
                                            int64_t count, int lane, float scale) {
  constexpr int32_t kLast = (1 << kBits) - 1;
  if (numbers.packed == kGroupIsNan) return 0;
  const uint64_t place = static_cast<uint64_t>(group) * kLanes;
  const PhiloxWords random = philox({{static_cast<uint32_t>(place) | static_cast<uint32_t>(lane),
                                      static_cast<uint32_t>(place >> 32), key.storage, key.step}},
                                    key.seed_low, key.seed_high);
  return Fields<kBits, kGroupFields>::pack([&](int field) NOISEMARK_SHARED_LAMBDA {
    const int64_t index = group * kGroupElements + field * kLanes + lane;
    if (!kWhole && index >= count) return 0U;
    const uint32_t half = (random.word[field / 2] >> (field % 2 * 16)) & 0xffff;
    return group_code(float_of(Type::load(x[index])) * scale, numbers, kLast, half);
  });
}

template <bool kWhole, int kBits, typename Type>
NOISEMARK_SHARED void decode_group_lane(const GroupNumbers& numbers, uint32_t codes,
                                        typename Type::Bits* y, int64_t group, int64_t count,
                                        int lane, float unscale) {
  Fields<kBits, kGroupFields>::unpack(codes, [&](int field, uint32_t code) NOISEMARK_SHARED_LAMBDA {
    const int64_t index = group * kGroupElements + field * kLanes + lane;
    if (!kWhole && index >= count) return;
    const uint32_t bits = group_value(code, numbers, unscale, Type::kLargest);
    y[index] = numbers.packed == kGroupIsNan ? Type::store(kQuietNanBits)
                                             : Type::template store<true>(bits);
  });
}

}  // namespace noisemark::memopt::codecs
