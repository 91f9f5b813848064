#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/fields.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

/// Squeezing the zeros out of a row of 32 elements and putting them back: what compilers do not
/// vectorise. A row's elements are bit `row` of 32 words. Without branches, so values behind the
/// last one are written and read too: both sides need room for kSlack more.
namespace noisemark::memopt::codecs {

constexpr int kSlack = 16;

/// 1 when x goes to `to`, else 0.
template <typename T>
NOISEMARK_SHARED int compress_one(T x, T* to) {
  *to = x;
  return x != 0 ? 1 : 0;
}

/// 1 when *from goes to *to, else 0, and *to is 0.
template <typename T>
NOISEMARK_SHARED int expand_one(uint32_t word, int row, const T* from, T* to) {
  const uint32_t bit = (word >> row) & 1;
  *to = static_cast<T>(*from & (0U - bit));
  return static_cast<int>(bit);
}

#ifdef __AVX512F__

// The masked forms where nothing is masked: g++ 12 warns of its own headers in the others.
constexpr __mmask16 kAll = 0xffff;

NOISEMARK_SHARED __m512i load16(const uint32_t* from) {
  return _mm512_loadu_si512(from);
}
NOISEMARK_SHARED __m512i load16(const uint16_t* from) {
  return _mm512_maskz_cvtepu16_epi32(kAll,
                                     _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
NOISEMARK_SHARED void store16(uint32_t* to, __m512i x) {
  _mm512_storeu_si512(to, x);
}
NOISEMARK_SHARED void store16(uint16_t* to, __m512i x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(kAll, x));
}

/// Number of values found.
template <typename T>
NOISEMARK_SHARED int compress_row(const T* x, T* to) {
  int found = 0;
  for (int half = 0; half < kLanes; half += 16) {
    const __m512i elements = load16(x + half);
    const __mmask16 mask = _mm512_test_epi32_mask(elements, elements);
    store16(to + found, _mm512_maskz_compress_epi32(mask, elements));
    found += __builtin_popcount(mask);
  }
  return found;
}

/// Number of values used.
template <typename T>
NOISEMARK_SHARED int expand_row(const uint32_t* words, int row, const T* from, T* to) {
  int used = 0;
  const __m512i bit = _mm512_set1_epi32(static_cast<int>(1U << row));
  for (int half = 0; half < kLanes; half += 16) {
    const __mmask16 mask = _mm512_test_epi32_mask(load16(words + half), bit);
    store16(to + half, _mm512_maskz_expand_epi32(mask, load16(from + used)));
    used += __builtin_popcount(mask);
  }
  return used;
}

#else

template <typename T>
NOISEMARK_SHARED int compress_row(const T* x, T* to) {
  int found = 0;
  for (int lane = 0; lane < kLanes; ++lane) found += compress_one(x[lane], to + found);
  return found;
}

template <typename T>
NOISEMARK_SHARED int expand_row(const uint32_t* words, int row, const T* from, T* to) {
  int used = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    used += expand_one(words[lane], row, from + used, to + lane);
  }
  return used;
}

#endif

}  // namespace noisemark::memopt::codecs
