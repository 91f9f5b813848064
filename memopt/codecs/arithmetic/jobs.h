#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/fields.h"
#include "memopt/codecs/arithmetic/floats.h"
#include "memopt/codecs/arithmetic/groups.h"

/// The jobs that a device is given. All pointers are into its memory, made by the caller; `count`
/// is elements of the tensor in memory order. A block is the elements of 32 words (fields.h).
namespace noisemark::memopt::codecs {

/// A code of a few bits for each element.
enum class FieldForm : uint8_t {
  kNarrowBFloat16,
  kNarrowFloat16,
  kBoolean,
  kTwoValues16,  ///< elements of 16 bits
  kTwoValues32,
  kPositive,
  kReduced16,
  kReduced10,
  kReduced8,
  kPoolPosition,
};

/// These forms multiply all elements by a power of two and round each, the finest first.
inline constexpr FieldForm kReducedForms[] = {FieldForm::kReduced16, FieldForm::kReduced10,
                                              FieldForm::kReduced8};
constexpr bool is_reduced(FieldForm form) {
  for (const FieldForm reduced : kReducedForms) {
    if (form == reduced) return true;
  }
  return false;
}

struct FieldJob {
  FieldForm form = FieldForm::kBoolean;
  Real real = Real::kFloat32;  ///< type of a value for kPositive and the reduced forms
  const void* x = nullptr;     ///< encode reads it
  void* y = nullptr;           ///< decode writes it
  uint32_t* words = nullptr;   ///< [blocks * 32]
  int64_t count = 0;
  FieldParameters common;
  /// [1], exact forms: set to 1 when an element does not survive. It is null where all are known
  /// to.
  int32_t* lost = nullptr;
};

/// 4 or 2 bits for each element, in groups.
struct GroupJob {
  int bits = 4;
  Real real = Real::kFloat32;
  const void* x = nullptr;
  void* y = nullptr;
  uint32_t* words = nullptr;    ///< [blocks * 32]; a block is 1024 / bits elements
  uint32_t* numbers = nullptr;  ///< [ceil(count / 256)], see GroupNumbers
  int64_t count = 0;
  const Extent* extent = nullptr;  ///< [1]
  RoundingKey key;                 ///< encode reads it

  [[nodiscard]] constexpr int64_t elements_per_block() const { return kLanes * (32 / bits); }
};

/// The elements that are not zero, in memory order, and a bit for each element.
struct SparseJob {
  static constexpr int64_t kBlock = Fields<1>::kPerBlock;

  int element_bytes = 4;  ///< 4 or 2
  const void* x = nullptr;
  void* y = nullptr;
  uint32_t* words = nullptr;    ///< [blocks * 32], the bits
  uint32_t* offsets = nullptr;  ///< [blocks], of each block's first value
  void* values = nullptr;       ///< [capacity], zeros behind the last
  int64_t count = 0;            ///< less than 2^32
  int64_t capacity = 0;
  int32_t* lost = nullptr;  ///< [1], set to 1 when there are more; the rest is then undefined
};

/// One number from a whole tensor.
struct SearchJob {
  Real real = Real::kFloat32;  ///< type of a value for find_extent
  int element_bytes = 4;       ///< 2 or 4, for find_nonzero
  const void* x = nullptr;
  int64_t count = 0;
  uint32_t* number = nullptr;  ///< [1]
};

constexpr int bits_of(FieldForm form) {
  switch (form) {
    case FieldForm::kBoolean:
    case FieldForm::kTwoValues16:
    case FieldForm::kTwoValues32:
    case FieldForm::kPositive:
      return 1;
    case FieldForm::kPoolPosition:
      return 4;
    case FieldForm::kReduced8:
      return 8;
    case FieldForm::kReduced10:
      return 10;
    case FieldForm::kNarrowBFloat16:
    case FieldForm::kNarrowFloat16:
    case FieldForm::kReduced16:
      return 16;
  }
  return 0;
}
constexpr bool gains(int bits, Real real) {
  return 32 / bits > (real == Real::kFloat32 ? 1 : 2);
}
/// Returns whether a word holds more codes of the form than elements; a job of a reduced form must.
constexpr bool gains(FieldForm form, Real real) {
  return gains(bits_of(form), real);
}
constexpr int64_t elements_per_block(FieldForm form) {
  return kLanes * (32 / bits_of(form));
}
NOISEMARK_SHARED constexpr int64_t blocks_of(int64_t count, int64_t elements_per_block) {
  return (count + elements_per_block - 1) / elements_per_block;
}

template <typename T>
struct TypeOf {
  using Type = T;
};

template <typename Format, bool kFinite, typename Body>
void with_reduced_op(Real real, const Body& body) {
  if constexpr (gains(Format::kBits, Real::kFloat16)) {
    with_real(real, [&](auto type) { body(TypeOf<Reduced<Format, decltype(type), kFinite>>{}); });
  } else {
    body(TypeOf<Reduced<Format, Float32, kFinite>>{});
  }
}

/// Calls `body` with TypeOf the form's code, so that no loop asks for it. kFinite: all elements
/// are; the reduced forms are faster then, and the same.
template <bool kFinite, typename Body>
void with_field_op(FieldForm form, Real real, const Body& body) {
  switch (form) {
    case FieldForm::kNarrowBFloat16:
      return body(TypeOf<NarrowBFloat16>{});
    case FieldForm::kNarrowFloat16:
      return body(TypeOf<NarrowFloat16>{});
    case FieldForm::kBoolean:
      return body(TypeOf<Boolean>{});
    case FieldForm::kTwoValues16:
      return body(TypeOf<TwoValues<uint16_t>>{});
    case FieldForm::kTwoValues32:
      return body(TypeOf<TwoValues<uint32_t>>{});
    case FieldForm::kPositive:
      return with_real(real, [&](auto type) { body(TypeOf<Positive<decltype(type)>>{}); });
    case FieldForm::kReduced16:
      return with_reduced_op<SmallFloat<5, 10>, kFinite>(real, body);
    case FieldForm::kReduced10:
      return with_reduced_op<SmallFloat<5, 4>, kFinite>(real, body);
    case FieldForm::kReduced8:
      return with_reduced_op<SmallFloat<4, 3>, kFinite>(real, body);
    case FieldForm::kPoolPosition:
      return body(TypeOf<PoolPosition>{});
  }
}

/// Calls `body` with TypeOf the unsigned integer of 2 or 4 bytes.
template <typename Body>
void with_element(int bytes, const Body& body) {
  bytes == 2 ? body(TypeOf<uint16_t>{}) : body(TypeOf<uint32_t>{});
}

}  // namespace noisemark::memopt::codecs
