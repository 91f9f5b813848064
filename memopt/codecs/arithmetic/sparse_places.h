#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/bits.h"
#include "memopt/codecs/arithmetic/jobs.h"

/// The places of a sparse tensor's values, as one lane of a warp works on a block: row by row, 32
/// elements that follow each other, one for each lane. `row_bits` says which of a row's are there,
/// bit l for lane l; `next` is the place of the row's first value.
namespace noisemark::memopt::codecs {

/// Bit `row` of a lane's word: whether its element of that row is there.
NOISEMARK_SHARED bool is_there(uint32_t word, int row) {
  return ((word >> row) & 1) != 0;
}

/// Values of the row that come before the lane's.
NOISEMARK_SHARED int values_before(uint32_t row_bits, int lane) {
  return static_cast<int>(ones_in(row_bits & ((1U << lane) - 1)));
}

NOISEMARK_SHARED int64_t element_of(int64_t block, int row, int lane) {
  return block * SparseJob::kBlock + row * kLanes + lane;
}

/// Beyond the capacity nothing is stored: the encoding is lost then.
template <typename T>
NOISEMARK_SHARED void gather_lane(const SparseJob& job, int64_t block, int row, int lane,
                                  uint32_t row_bits, int64_t next) {
  if (!is_there(row_bits, lane)) return;
  const int64_t place = next + values_before(row_bits, lane);
  if (place >= job.capacity) return;
  static_cast<T*>(job.values)[place] = static_cast<const T*>(job.x)[element_of(block, row, lane)];
}

template <typename T>
NOISEMARK_SHARED void scatter_lane(const SparseJob& job, int64_t block, int row, int lane,
                                   uint32_t row_bits, int64_t next) {
  const int64_t element = element_of(block, row, lane);
  if (element >= job.count) return;
  const int64_t place = next + values_before(row_bits, lane);
  static_cast<T*>(job.y)[element] =
      is_there(row_bits, lane) ? static_cast<const T*>(job.values)[place] : T{0};
}

/// Counts the values of the whole tensor, once words and offsets are made: those before the last
/// block and its own.
NOISEMARK_SHARED int64_t values_in_all(const SparseJob& job, int64_t blocks) {
  int64_t values = job.offsets[blocks - 1];
  for (int lane = 0; lane < kLanes; ++lane) {
    values += ones_in(job.words[(blocks - 1) * kLanes + lane]);
  }
  return values;
}

}  // namespace noisemark::memopt::codecs
