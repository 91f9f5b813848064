// This file is compiled once per instruction set: the flags and the namespace NOISEMARK_LEVEL come
// from CMake.
#include "memopt/codecs/arithmetic/groups.h"

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/kernels/kernels.h"

namespace noisemark::memopt::codecs::NOISEMARK_LEVEL {
namespace {

template <typename Type>
GroupRange range_of(const typename Type::Bits* x, int64_t count) {
  int32_t lowest = GroupRange{}.lowest;
  int32_t highest = GroupRange{}.highest;
#pragma omp simd reduction(min : lowest) reduction(max : highest)
  for (int64_t i = 0; i < count; ++i) {
    const int32_t key = ordered(Type::load(x[i]));
    lowest = smaller(lowest, key);
    highest = larger(highest, key);
  }
  return {lowest, highest};
}

/// A group's codes in the lower or the upper part of its block's words.
template <int kBits, typename Type>
void encode_group(const GroupJob& job, int64_t group, float scale, uint32_t* words, int shift) {
  const auto* x = static_cast<const typename Type::Bits*>(job.x);
  const int64_t first = group * kGroupElements;
  const int64_t present = smaller<int64_t>(kGroupElements, job.count - first);
  const GroupNumbers numbers =
      numbers_of(range_of<Type>(x + first, present), scale, static_cast<float>((1 << kBits) - 1));
  job.numbers[group] = numbers.packed;
  const RoundingKey key = job.key;
  if (present == kGroupElements) {
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane) {
      words[lane] |=
          encode_group_lane<true, kBits, Type>(numbers, key, x, group, job.count, lane, scale)
          << shift;
    }
  } else {
    for (int lane = 0; lane < kLanes; ++lane) {
      words[lane] |=
          encode_group_lane<false, kBits, Type>(numbers, key, x, group, job.count, lane, scale)
          << shift;
    }
  }
}

template <int kBits, typename Type>
void decode_group(const GroupJob& job, int64_t group, float unscale, const uint32_t* words,
                  int shift) {
  auto* y = static_cast<typename Type::Bits*>(job.y);
  const GroupNumbers numbers = unpack_numbers(job.numbers[group]);
  if ((group + 1) * kGroupElements <= job.count) {
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane) {
      decode_group_lane<true, kBits, Type>(numbers, words[lane] >> shift, y, group, job.count, lane,
                                           unscale);
    }
  } else {
    for (int lane = 0; lane < kLanes; ++lane) {
      decode_group_lane<false, kBits, Type>(numbers, words[lane] >> shift, y, group, job.count,
                                            lane, unscale);
    }
  }
}

template <int kBits, typename Type>
void encode_blocks(const GroupJob& job, int64_t begin, int64_t end) {
  constexpr int kPerBlock = Fields<kBits>::kPerBlock / kGroupElements;
  const int64_t groups = blocks_of(job.count, kGroupElements);
  const float scale = power_of_two(scale_exponent(*job.extent, kGroupTop));
  for (int64_t block = begin; block < end; ++block) {
    uint32_t* words = job.words + block * kLanes;
    for (int lane = 0; lane < kLanes; ++lane) words[lane] = 0;
    for (int part = 0; part < kPerBlock && block * kPerBlock + part < groups; ++part) {
      encode_group<kBits, Type>(job, block * kPerBlock + part, scale, words,
                                part * kGroupFields * kBits);
    }
  }
}

template <int kBits, typename Type>
void decode_blocks(const GroupJob& job, int64_t begin, int64_t end) {
  constexpr int kPerBlock = Fields<kBits>::kPerBlock / kGroupElements;
  const int64_t groups = blocks_of(job.count, kGroupElements);
  const float unscale = power_of_two(-scale_exponent(*job.extent, kGroupTop));
  for (int64_t block = begin; block < end; ++block) {
    const uint32_t* words = job.words + block * kLanes;
    for (int part = 0; part < kPerBlock && block * kPerBlock + part < groups; ++part) {
      decode_group<kBits, Type>(job, block * kPerBlock + part, unscale, words,
                                part * kGroupFields * kBits);
    }
  }
}

void encode(const GroupJob& job, int64_t begin, int64_t end) {
  with_real(job.real, [&](auto type) {
    job.bits == 4 ? encode_blocks<4, decltype(type)>(job, begin, end)
                  : encode_blocks<2, decltype(type)>(job, begin, end);
  });
}

void decode(const GroupJob& job, int64_t begin, int64_t end) {
  with_real(job.real, [&](auto type) {
    job.bits == 4 ? decode_blocks<4, decltype(type)>(job, begin, end)
                  : decode_blocks<2, decltype(type)>(job, begin, end);
  });
}

}  // namespace

extern const GroupKernels kGroups;
const GroupKernels kGroups = {encode, decode};

}  // namespace noisemark::memopt::codecs::NOISEMARK_LEVEL
