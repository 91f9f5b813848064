#include "memopt/codecs/arithmetic/fields.h"
#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/kernels/kernels.h"

// This file is compiled once per instruction set: the flags and the namespace NOISEMARK_LEVEL come
// from CMake.

namespace noisemark::memopt::codecs::NOISEMARK_LEVEL {
namespace {

template <typename Op>
uint32_t encode_block(const Op& op, const typename Op::Element* x, int64_t first, int64_t count,
                      uint32_t* words) {
  uint32_t lost = 0;
  if (first + Fields<Op::kBits>::kPerBlock <= count) {
#pragma omp simd reduction(| : lost)
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t lost_here = 0;
      words[lane] = encode_word<true>(op, x, first, count, lane, lost_here);
      lost |= lost_here;
    }
  } else {
    for (int lane = 0; lane < kLanes; ++lane) {
      words[lane] = encode_word<false>(op, x, first, count, lane, lost);
    }
  }
  return lost;
}

template <typename Op>
void encode_blocks(const FieldJob& job, int64_t begin, int64_t end) {
  const Op op(job.common);
  const auto* x = static_cast<const typename Op::Element*>(job.x);
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * Fields<Op::kBits>::kPerBlock;
    const uint32_t lost = encode_block(op, x, first, job.count, job.words + block * kLanes);
    if (lost != 0 && job.lost != nullptr) {
      return __atomic_store_n(job.lost, 1, __ATOMIC_RELAXED);
    }
  }
}

template <typename Op>
void decode_blocks(const FieldJob& job, int64_t begin, int64_t end) {
  const Op op(job.common);
  auto* y = static_cast<typename Op::Element*>(job.y);
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * Fields<Op::kBits>::kPerBlock;
    const uint32_t* words = job.words + block * kLanes;
    if (first + Fields<Op::kBits>::kPerBlock <= job.count) {
#pragma omp simd
      for (int lane = 0; lane < kLanes; ++lane) {
        decode_word<true>(op, words[lane], y, first, job.count, lane);
      }
    } else {
      for (int lane = 0; lane < kLanes; ++lane) {
        decode_word<false>(op, words[lane], y, first, job.count, lane);
      }
    }
  }
}

template <typename Body>
void with_op(const FieldJob& job, const Body& body) {
  if (is_reduced(job.form) && all_finite(*job.common.number)) {
    with_field_op<true>(job.form, job.real, body);
  } else {
    with_field_op<false>(job.form, job.real, body);
  }
}

void encode(const FieldJob& job, int64_t begin, int64_t end) {
  with_op(job, [&](auto op) { encode_blocks<typename decltype(op)::Type>(job, begin, end); });
}

void decode(const FieldJob& job, int64_t begin, int64_t end) {
  with_op(job, [&](auto op) { decode_blocks<typename decltype(op)::Type>(job, begin, end); });
}

}  // namespace

extern const FieldKernels kFields;
const FieldKernels kFields = {encode, decode};

}  // namespace noisemark::memopt::codecs::NOISEMARK_LEVEL

namespace noisemark::memopt::codecs::NOISEMARK_LEVEL {
namespace {

template <typename Type>
Extent extent_of_all(const typename Type::Bits* x, int64_t count) {
  using Search = ExtentSearch<Type>;
  typename Search::Signed largest = 0;
  typename Search::Signed specials = 0;
#pragma omp simd reduction(max : largest) reduction(| : specials)
  for (int64_t i = 0; i < count; ++i) {
    const auto entry = static_cast<typename Search::Signed>(Search::entry_of(x[i]));
    largest = larger(largest, entry);
    specials = static_cast<typename Search::Signed>(specials | entry);
  }
  return Search{static_cast<typename Search::Bits>(largest),
                static_cast<typename Search::Bits>(specials)}
      .extent();
}

Extent extent(const SearchJob& job, int64_t begin, int64_t end) {
  Extent found = 0;
  with_real(job.real, [&](auto type) {
    using Type = decltype(type);
    const auto* x = static_cast<const typename Type::Bits*>(job.x);
    found = extent_of_all<Type>(x + begin, end - begin);
  });
  return found;
}

}  // namespace

extern const SearchKernels kSearch;
const SearchKernels kSearch = {extent};

}  // namespace noisemark::memopt::codecs::NOISEMARK_LEVEL
