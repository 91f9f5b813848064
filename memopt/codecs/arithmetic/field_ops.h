#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/bits.h"
#include "memopt/codecs/arithmetic/pool_windows.h"
#include "memopt/codecs/arithmetic/real.h"
#include "memopt/codecs/arithmetic/small_float.h"

/// What fields.h asks of a code: one element to a few bits and back.
namespace noisemark::memopt::codecs {

/// What is common to a whole tensor; of the two, each code looks at its own.
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

/// See SmallFloat. `number` is an Extent. kFinite: it says so of all elements.
template <typename Format, typename Type, bool kFinite>
struct Reduced {
  using Element = typename Type::Bits;
  static constexpr int kBits = Format::kBits;
  static constexpr bool kExact = false;
  float scale;
  float unscale;
  NOISEMARK_SHARED explicit Reduced(const FieldParameters& common)
      : scale(power_of_two(scale_exponent(*common.number, Format::kBias))),
        unscale(power_of_two(-scale_exponent(*common.number, Format::kBias))) {}
  NOISEMARK_SHARED uint32_t encode(Element x, int64_t) const {
    return Format::template encode<kFinite>(Type::template load<kFinite>(x), scale);
  }
  NOISEMARK_SHARED Element decode(uint32_t code, int64_t) const {
    return Type::template store<kFinite>(Format::template decode<kFinite>(code, unscale));
  }
};

/// Index of a maximum in its input plane, as its position in the window: bits 2-3 row, bits 0-1
/// column. Windows of up to 4 x 4; where their rows interleave in memory it may not be found. For
/// tensors of fewer than 2^31 elements.
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
    // Unsigned, because an index that is none of this pooling's may overflow.
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
  /// floor(a / b) from 1 / b. Exact for 0 <= a < 2^31: (a + 0.5) / b is at least 0.5 / b from every
  /// integer, and the two roundings err by less than 2^-20 / b.
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
