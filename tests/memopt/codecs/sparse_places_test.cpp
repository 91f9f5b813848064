#include "memopt/codecs/arithmetic/sparse_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memopt/codecs/codec_device.h"

// The GPU's kernels lane by lane on the host: what a warp works out together is worked out here.
namespace noisemark::memopt::codecs {
namespace {

/// The parts of an encoding, and what it was made from and decodes to.
template <typename T>
struct Sparse {
  std::vector<T> x, y, values;
  std::vector<uint32_t> words, offsets;
  int32_t lost = 0;
  SparseJob job;

  Sparse(std::vector<T> elements, int64_t capacity) : x(std::move(elements)), y(x.size(), 7) {
    const auto blocks = static_cast<size_t>(blocks_of(count(), SparseJob::kBlock));
    values.assign(static_cast<size_t>(capacity), 9);
    words.assign(blocks * kLanes, 0);
    offsets.assign(blocks, 0);
    job = {static_cast<int>(sizeof(T)),
           x.data(),
           y.data(),
           words.data(),
           offsets.data(),
           values.data(),
           count(),
           capacity,
           &lost};
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(x.size()); }
};

/// `work(block, row, lane, row_bits, next)`, as for_rows() of the kernels calls it.
template <typename Work>
void for_lanes(const SparseJob& job, const Work& work) {
  for (int64_t block = 0; block < blocks_of(job.count, SparseJob::kBlock); ++block) {
    int64_t next = job.offsets[block];
    for (int row = 0; row < kLanes; ++row) {
      uint32_t row_bits = 0;
      for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t word = job.words[block * kLanes + lane];
        row_bits |= (is_there(word, row) ? 1U : 0U) << lane;
      }
      for (int lane = 0; lane < kLanes; ++lane) work(block, row, lane, row_bits, next);
      next += ones_in(row_bits);
    }
  }
}

/// About one in `every` is not zero; the last is.
template <typename T>
std::vector<T> elements(size_t count, uint32_t every) {
  std::vector<T> all(count, 0);
  uint32_t state = 3;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    if ((state >> 8) % every == 0) all[i] = static_cast<T>((state >> 8) | 1);
  }
  all.back() = 5;
  return all;
}

template <typename T>
void expect_the_cpus_places(size_t count, uint32_t every) {
  SCOPED_TRACE(std::to_string(count) + " elements of " + std::to_string(sizeof(T)) +
               " bytes, one in " + std::to_string(every));
  Sparse<T> cpu(elements<T>(count, every), static_cast<int64_t>(count));
  cpu_codec_device().encode(cpu.job);
  ASSERT_EQ(cpu.lost, 0);
  Sparse<T> own(elements<T>(count, every), static_cast<int64_t>(count));
  own.words = cpu.words;
  own.offsets = cpu.offsets;
  for_lanes(own.job, [&](int64_t block, int row, int lane, uint32_t row_bits, int64_t next) {
    gather_lane<T>(own.job, block, row, lane, row_bits, next);
  });
  const auto last =
      static_cast<size_t>(values_in_all(own.job, blocks_of(own.job.count, SparseJob::kBlock)));
  const auto all = static_cast<size_t>(
      std::count_if(own.x.begin(), own.x.end(), [](T element) { return element != 0; }));
  EXPECT_EQ(last, all);
  for (size_t i = 0; i < own.values.size(); ++i) {
    ASSERT_EQ(own.values[i], i < last ? cpu.values[i] : T{9}) << i;
  }
  for_lanes(own.job, [&](int64_t block, int row, int lane, uint32_t row_bits, int64_t next) {
    scatter_lane<T>(own.job, block, row, lane, row_bits, next);
  });
  EXPECT_EQ(own.y, own.x);
}

TEST(SparsePlaces, of_a_warp_are_those_of_the_cpu) {
  for (const size_t count : {1, 31, 32, 33, 1023, 1024, 1025, 70'001}) {
    for (const uint32_t every : {1U, 2U, 3U, 100U, 100'000U}) {
      expect_the_cpus_places<uint32_t>(count, every);
      expect_the_cpus_places<uint16_t>(count, every);
    }
  }
}

TEST(SparsePlaces, beyond_the_capacity_are_left_alone) {
  constexpr int64_t kRoom = 1500;
  Sparse<uint32_t> full(elements<uint32_t>(4096, 1), 4096);
  cpu_codec_device().encode(full.job);
  Sparse<uint32_t> small(elements<uint32_t>(4096, 1), kRoom);
  small.words = full.words;
  small.offsets = full.offsets;
  small.values.resize(4096, 9);
  small.job.values = small.values.data();
  for_lanes(small.job, [&](int64_t block, int row, int lane, uint32_t row_bits, int64_t next) {
    gather_lane<uint32_t>(small.job, block, row, lane, row_bits, next);
  });
  EXPECT_EQ(values_in_all(small.job, 4), 4096);
  for (size_t i = 0; i < small.values.size(); ++i) {
    ASSERT_EQ(small.values[i], i < kRoom ? full.values[i] : 9U) << i;
  }
}

TEST(SparsePlaces, of_a_lane_follow_those_of_the_lanes_before_it) {
  EXPECT_EQ(values_before(0xffffffff, 0), 0);
  EXPECT_EQ(values_before(0xffffffff, 31), 31);
  EXPECT_EQ(values_before(0x80000001, 31), 1);
  EXPECT_EQ(values_before(0x80000000, 31), 0);
  EXPECT_EQ(values_before(0b1010, 3), 1);
}

}  // namespace
}  // namespace noisemark::memopt::codecs
