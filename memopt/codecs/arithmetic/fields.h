#pragma once

#include <cstdint>
#include <utility>

#include "memopt/codecs/arithmetic/bits.h"

/// How codes of a few bits lie in 32-bit words. A block is 32 words, one for each lane of a warp or
/// of a few vector registers, and holds 32 * F elements that follow each other in memory, F = 32 /
/// bits. Element e of a block is field e / 32 of word e % 32; field f is bits [f * bits, (f + 1) *
/// bits). So neighbouring elements lie in neighbouring words, and packing needs no step across
/// lanes. Fields past the end of the tensor are 0.
namespace noisemark::memopt::codecs {

constexpr int kLanes = 32;

template <int kBits, int kCount = 32 / kBits>
struct Fields {
  static constexpr int kPerWord = kCount;
  static constexpr int kPerBlock = kLanes * kPerWord;
  static constexpr uint32_t kMask = (1U << kBits) - 1;

  /// `code(f)` for every field.
  template <typename Code>
  static NOISEMARK_SHARED uint32_t pack(const Code& code) {
    return pack(code, std::make_integer_sequence<int, kPerWord>{});
  }

  /// The same for 1-bit codes of elements of one byte: collected in bytes, of which a vector
  /// register holds four times as many.
  template <typename Code>
  static NOISEMARK_SHARED uint32_t pack_bytes(const Code& code) {
    static_assert(kBits == 1);
    return byte_of(code, 0, std::make_integer_sequence<int, 8>{}) |
           byte_of(code, 8, std::make_integer_sequence<int, 8>{}) << 8 |
           byte_of(code, 16, std::make_integer_sequence<int, 8>{}) << 16 |
           byte_of(code, 24, std::make_integer_sequence<int, 8>{}) << 24;
  }

  /// Calls `use(f, code)` for every field.
  template <typename Use>
  static NOISEMARK_SHARED void unpack(uint32_t word, const Use& use) {
    unpack(word, use, std::make_integer_sequence<int, kPerWord>{});
  }

 private:
  // Folds instead of loops: vectorisers then find no loop inside the one over the lanes.
  template <typename Code, int... field>
  static NOISEMARK_SHARED uint32_t pack(const Code& code, std::integer_sequence<int, field...>) {
    return ((code(field) << (field * kBits)) | ...);
  }
  template <typename Code, int... field>
  static NOISEMARK_SHARED uint32_t byte_of(const Code& code, int first,
                                           std::integer_sequence<int, field...>) {
    uint8_t byte = 0;
    ((byte = static_cast<uint8_t>(byte + byte + code(first + 7 - field))), ...);
    return byte;
  }
  template <typename Use, int... field>
  static NOISEMARK_SHARED void unpack(uint32_t word, const Use& use,
                                      std::integer_sequence<int, field...>) {
    (use(field, (word >> (field * kBits)) & kMask), ...);
  }
};

/// 0 where the bits are the same.
template <typename T>
NOISEMARK_SHARED uint32_t difference(T a, T b) {
  const auto bits = a ^ b;
  if constexpr (sizeof(T) > sizeof(uint32_t)) {
    return static_cast<uint32_t>(bits) | static_cast<uint32_t>(bits >> 32);
  } else {
    return static_cast<uint32_t>(bits);
  }
}

/// One lane's word of a block that starts at element `first` of `count`. `Op` has Element, kBits,
/// encode(element, index), decode(code, index), and kExact: where an element does not come back
/// from its code bit for bit, `lost` becomes non-zero. kWhole: the block does not reach past the
/// end.
template <bool kWhole, typename Op>
NOISEMARK_SHARED uint32_t encode_word(const Op& op, const typename Op::Element* x, int64_t first,
                                      int64_t count, int lane, uint32_t& lost) {
  const auto code_of = [&](int field) NOISEMARK_SHARED_LAMBDA {
    const int64_t index = first + field * kLanes + lane;
    if (!kWhole && index >= count) return 0U;
    const typename Op::Element element = x[index];
    const uint32_t code = op.encode(element, index);
    if constexpr (Op::kExact) lost |= difference(op.decode(code, index), element);
    return code;
  };
  if constexpr (sizeof(typename Op::Element) == 1 && Op::kBits == 1) {
    return Fields<1>::pack_bytes(code_of);
  } else {
    return Fields<Op::kBits>::pack(code_of);
  }
}

template <bool kWhole, typename Op>
NOISEMARK_SHARED void decode_word(const Op& op, uint32_t word, typename Op::Element* y,
                                  int64_t first, int64_t count, int lane) {
  Fields<Op::kBits>::unpack(word, [&](int field, uint32_t code) NOISEMARK_SHARED_LAMBDA {
    const int64_t index = first + field * kLanes + lane;
    if (kWhole || index < count) y[index] = op.decode(code, index);
  });
}

}  // namespace noisemark::memopt::codecs
