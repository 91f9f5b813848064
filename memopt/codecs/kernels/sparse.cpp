// This file is compiled once per instruction set: the flags and the namespace NOISEMARK_LEVEL come
// from CMake.
#include <cstddef>

#include "memopt/codecs/arithmetic/fields.h"
#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/kernels/compress.h"
#include "memopt/codecs/kernels/kernels.h"

namespace noisemark::memopt::codecs::NOISEMARK_LEVEL {
namespace {

constexpr int kBlock = static_cast<int>(SparseJob::kBlock);

template <typename T>
void map_blocks(const SparseJob& job, int64_t begin, int64_t end) {
  const NonZero<T> op(FieldParameters{});
  const auto* x = static_cast<const T*>(job.x);
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kBlock;
    uint32_t* words = job.words + block * kLanes;
    uint32_t unused = 0;
    if (first + kBlock <= job.count) {
#pragma omp simd
      for (int lane = 0; lane < kLanes; ++lane) {
        uint32_t unused_here = 0;
        words[lane] = encode_word<true>(op, x, first, job.count, lane, unused_here);
      }
    } else {
      for (int lane = 0; lane < kLanes; ++lane) {
        words[lane] = encode_word<false>(op, x, first, job.count, lane, unused);
      }
    }
    uint32_t values = 0;
#pragma omp simd reduction(+ : values)
    for (int lane = 0; lane < kLanes; ++lane) values += ones_in(words[lane]);
    job.offsets[block] = values;
  }
}

template <typename T>
void gather_blocks(const SparseJob& job, int64_t begin, int64_t end) {
  const auto* x = static_cast<const T*>(job.x);
  auto* values = static_cast<T*>(job.values);
  for (int64_t block = begin; block < end; ++block) {
    const T* from = x + block * kBlock;
    const int present = static_cast<int>(smaller<int64_t>(kBlock, job.count - block * kBlock));
    T found[kBlock + kSlack];
    int next = 0;
    int i = 0;
    for (; i + kLanes <= present; i += kLanes) next += compress_row(from + i, found + next);
    for (; i < present; ++i) next += compress_one(from[i], found + next);
    __builtin_memcpy(values + job.offsets[block], found, sizeof(T) * static_cast<size_t>(next));
  }
}

template <typename T>
void scatter_blocks(const SparseJob& job, int64_t begin, int64_t end) {
  auto* y = static_cast<T*>(job.y);
  const auto* values = static_cast<const T*>(job.values);
  for (int64_t block = begin; block < end; ++block) {
    T* to = y + block * kBlock;
    const int present = static_cast<int>(smaller<int64_t>(kBlock, job.count - block * kBlock));
    const uint32_t* words = job.words + block * kLanes;
    const T* from = values + job.offsets[block];
    const int64_t left = job.capacity - job.offsets[block];
    T last[kBlock + kSlack];
    if (left < kBlock + kSlack) {
      __builtin_memcpy(last, from, sizeof(T) * static_cast<size_t>(left));
      from = last;
    }
    int row = 0;
    for (; (row + 1) * kLanes <= present; ++row) {
      from += expand_row(words, row, from, to + row * kLanes);
    }
    for (int lane = 0; lane < present - row * kLanes; ++lane) {
      from += expand_one(words[lane], row, from, to + row * kLanes + lane);
    }
  }
}

void map(const SparseJob& job, int64_t begin, int64_t end) {
  with_element(job.element_bytes,
               [&](auto t) { map_blocks<typename decltype(t)::Type>(job, begin, end); });
}
void gather(const SparseJob& job, int64_t begin, int64_t end) {
  with_element(job.element_bytes,
               [&](auto t) { gather_blocks<typename decltype(t)::Type>(job, begin, end); });
}
void scatter(const SparseJob& job, int64_t begin, int64_t end) {
  with_element(job.element_bytes,
               [&](auto t) { scatter_blocks<typename decltype(t)::Type>(job, begin, end); });
}

}  // namespace

extern const SparseKernels kSparse;
const SparseKernels kSparse = {map, gather, scatter};

}  // namespace noisemark::memopt::codecs::NOISEMARK_LEVEL
