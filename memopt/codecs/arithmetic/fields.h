#pragma once

#include <cstdint>
#include <utility>

#include "memopt/codecs/arithmetic/bits.h"
#include "memopt/codecs/arithmetic/floats.h"

/// Codes of a few bits lie in 32-bit words. A block is 32 words, one for each lane of a warp or
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

/// The places of a max pooling's windows, in memory order of its output: [planes, rows, columns,
/// inner], inner = channels when they are innermost, else 1. Positions in the
/// padding count, and none may leave int32.
struct PoolWindows {
  int32_t rows = 1;
  int32_t columns = 1;
  int32_t inner = 1;
  int32_t row_step = 0;     ///< elements of the input plane from one window to the one below
  int32_t column_step = 0;  ///< elements from one window to the one on the right
  int32_t origin = 0;       ///< position of the first window, negative with padding
  int32_t row_pitch = 0;    ///< elements from one position within a window to the one below
  int32_t column_pitch = 0;
};

// Codes, as encode_word() and decode_word() take them: one element to a few bits and back.

/// The facts that are common to a whole tensor; of the two, each code looks at its own.
struct FieldParameters {
  const uint32_t* number = nullptr;  ///< one number that was found in the tensor
  PoolWindows windows;
};

/// binary32 to bfloat16 by dropping the lower half, which must be 0.
struct NarrowBFloat16 {
  using Element = uint32_t;
  static constexpr int kBits = 16;
  static constexpr bool kExact = true;
  NOISEMARK_SHARED explicit NarrowBFloat16(const FieldParameters&) {}
  NOISEMARK_SHARED uint32_t encode(Element x, int64_t) const { return x >> 16; }
  NOISEMARK_SHARED Element decode(uint32_t code, int64_t) const { return code << 16; }
};

/// binary32 to binary16, where that is exact.
struct NarrowFloat16 {
  using Element = uint32_t;
  static constexpr int kBits = 16;
  static constexpr bool kExact = true;
  NOISEMARK_SHARED explicit NarrowFloat16(const FieldParameters&) {}
  NOISEMARK_SHARED uint32_t encode(Element x, int64_t) const { return Half::encode(x, 1.0F); }
  NOISEMARK_SHARED Element decode(uint32_t code, int64_t) const { return Half::decode(code, 1.0F); }
};

/// 0 or one other pattern of bits, which is `number`.
template <typename T>
struct TwoValues {
  using Element = T;
  static constexpr int kBits = 1;
  static constexpr bool kExact = true;
  Element scale;
  NOISEMARK_SHARED explicit TwoValues(const FieldParameters& common)
      : scale(static_cast<Element>(*common.number)) {}
  NOISEMARK_SHARED uint32_t encode(Element x, int64_t) const { return x != 0 ? 1U : 0U; }
  NOISEMARK_SHARED Element decode(uint32_t code, int64_t) const {
    return static_cast<Element>(scale & (0U - code));
  }
};

/// bool, as LibTorch writes it: a byte that is 0 or 1.
struct Boolean {
  using Element = uint8_t;
  static constexpr int kBits = 1;
  static constexpr bool kExact = false;
  NOISEMARK_SHARED explicit Boolean(const FieldParameters&) {}
  NOISEMARK_SHARED uint32_t encode(Element x, int64_t) const { return x != 0 ? 1U : 0U; }
  NOISEMARK_SHARED Element decode(uint32_t code, int64_t) const {
    return static_cast<Element>(code);
  }
};

/// Any bit set: -0 is not zero.
template <typename T>
struct NonZero {
  using Element = T;
  static constexpr int kBits = 1;
  static constexpr bool kExact = false;
  NOISEMARK_SHARED explicit NonZero(const FieldParameters&) {}
  NOISEMARK_SHARED uint32_t encode(Element x, int64_t) const { return x != 0 ? 1U : 0U; }
};

/// 1 where x <= 0 is false, so for NaN too: where the gradient of ReLU passes.
template <typename Type>
struct Positive {
  using Element = typename Type::Bits;
  static constexpr int kBits = 1;
  static constexpr bool kExact = false;
  NOISEMARK_SHARED explicit Positive(const FieldParameters&) {}
  NOISEMARK_SHARED uint32_t encode(Element x, int64_t) const {
    constexpr Element kSign = static_cast<Element>(~(static_cast<Element>(~Element{0}) >> 1));
    const bool positive = x != 0 && x < kSign;
    const bool nan = (x & static_cast<Element>(~kSign)) > Type::kInfinity;
    return positive || nan ? 1U : 0U;
  }
  NOISEMARK_SHARED Element decode(uint32_t code, int64_t) const {
    return static_cast<Element>(Type::kOne & (0U - code));
  }
};

/// See SmallFloat. `number` is an Extent. kFinite says that all elements are finite.
template <typename Format, typename Type, bool kFinite>
struct Reduced {
  using Element = typename Type::Bits;
  static constexpr int kBits = Format::kBits;
  static constexpr bool kExact = false;
  float scale;
  float unscale;
  NOISEMARK_SHARED explicit Reduced(const FieldParameters& common)
      : Reduced(scale_exponent(rounded_up(*common.number, Format::kPlaces), Format::kBias)) {}
  NOISEMARK_SHARED uint32_t encode(Element x, int64_t) const {
    return Format::template encode<kFinite>(Type::template load<kFinite>(x), scale);
  }
  NOISEMARK_SHARED Element decode(uint32_t code, int64_t) const {
    return Type::template store<kFinite>(Format::template decode<kFinite>(code, unscale));
  }

 private:
  NOISEMARK_SHARED explicit Reduced(int exponent)
      : scale(power_of_two(exponent)), unscale(power_of_two(-exponent)) {}
};

/// Index of a maximum in its input plane, as its position in the window: bits 2-3 row, bits 0-1
/// column. Windows of up to 4 x 4; where their rows interleave in memory it may not be found. A
/// tensor has fewer than 2^31 elements.
class PoolPosition {
 public:
  using Element = int64_t;
  static constexpr int kBits = 4;
  static constexpr bool kExact = true;

  NOISEMARK_SHARED explicit PoolPosition(const FieldParameters& common)
      : windows_(common.windows),
        per_row_(1.0 / common.windows.rows),
        per_column_(1.0 / common.windows.columns),
        per_inner_(1.0 / common.windows.inner) {}

  NOISEMARK_SHARED uint32_t encode(Element x, int64_t index) const {
    // It is unsigned, because an index that is none of this pooling's may overflow.
    const auto offset =
        static_cast<int32_t>(static_cast<uint32_t>(x) - static_cast<uint32_t>(window_begin(index)));
    const int32_t row = steps_in(offset, windows_.row_pitch);
    const int32_t column = steps_in(offset - row * windows_.row_pitch, windows_.column_pitch);
    return static_cast<uint32_t>(row * 4 + column);
  }
  NOISEMARK_SHARED Element decode(uint32_t code, int64_t index) const {
    const int32_t row = static_cast<int32_t>(code >> 2);
    const int32_t column = static_cast<int32_t>(code & 3);
    return window_begin(index) + row * windows_.row_pitch + column * windows_.column_pitch;
  }

 private:
  /// floor(offset / pitch) where that is 0 to 3.
  static NOISEMARK_SHARED int32_t steps_in(int32_t offset, int32_t pitch) {
    return (offset >= pitch ? 1 : 0) + (offset >= 2 * pitch ? 1 : 0) +
           (offset >= 3 * pitch ? 1 : 0);
  }
  /// floor(a / b) from 1 / b. It is exact for 0 <= a < 2^31: (a + 0.5) / b is at least 0.5 / b from
  /// every integer, and the two roundings err by less than 2^-20 / b.
  static NOISEMARK_SHARED int32_t divide(int32_t a, double inverse) {
    return static_cast<int32_t>((a + 0.5) * inverse);
  }
  NOISEMARK_SHARED int32_t window_begin(int64_t index) const {
    const int32_t cell = divide(static_cast<int32_t>(index), per_inner_);
    const int32_t line = divide(cell, per_column_);
    const int32_t column = cell - line * windows_.columns;
    const int32_t row = line - divide(line, per_row_) * windows_.rows;
    return windows_.origin + row * windows_.row_step + column * windows_.column_step;
  }

  PoolWindows windows_;
  double per_row_;
  double per_column_;
  double per_inner_;
};

}  // namespace noisemark::memopt::codecs
