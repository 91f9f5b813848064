#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "memopt/codecs/arithmetic/sparse_places.h"
#include "memopt/codecs/codec_device.h"
#include "memopt/codecs/codecs.h"
#include "tests/memopt/codecs/bits.h"

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

namespace noisemark::memopt {
namespace {

using test::float_tensor;
using test::kAnyKey;
using test::same_bits;

/// `values` ones spread over `count` zeros.
at::Tensor spread(int64_t count, int64_t values, at::ScalarType type = at::kFloat) {
  at::Tensor x = at::zeros({count}, type);
  if (values > 0) x.slice(0, 0, values * (count / values), count / values).fill_(1);
  return x;
}

TEST(Sparse, keeps_relu_outputs_of_every_type_and_odd_length) {
  const auto codec = make_sparse_codec(0.6);
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t count : {2047, 2048, 2049, 2081, 70'001}) {
      const at::Tensor x = at::relu(test::normals({count})).to(type);
      const auto encoded = codec->encode(x, kAnyKey);
      ASSERT_TRUE(encoded) << type << " " << count;
      EXPECT_TRUE(same_bits(codec->decode(*encoded), x)) << type << " " << count;
    }
  }
}

TEST(Sparse, keeps_every_kind_of_value_and_minus_zero) {
  std::vector<uint32_t> bits(4096, 0);
  const std::vector<uint32_t> classes = test::float_classes();
  for (size_t i = 0; i < classes.size(); ++i) bits[i * 70] = classes[i];
  const at::Tensor x = float_tensor(bits);
  const auto codec = make_sparse_codec(0.1);
  const auto encoded = codec->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
}

TEST(Sparse, takes_as_many_values_as_there_is_room_for_and_not_one_more) {
  const auto codec = make_sparse_codec(0.25);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor full = spread(40'000, 10'000, type);
    const auto encoded = codec->encode(full, kAnyKey);
    ASSERT_TRUE(encoded);
    EXPECT_TRUE(same_bits(codec->decode(*encoded), full));
    at::Tensor over = full.clone();
    over[39'999] = 1;
    EXPECT_FALSE(codec->encode(over, kAnyKey));
  }
}

TEST(Sparse, keeps_blocks_that_are_full_and_blocks_that_are_empty) {
  const auto codec = make_sparse_codec(0.5);
  at::Tensor x = at::zeros({8 * 1024});
  x.narrow(0, 1024, 1024).fill_(3);
  x.narrow(0, 7 * 1024, 1024).fill_(4);
  const auto encoded = codec->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
  const auto empty = codec->encode(at::zeros({8 * 1024}), kAnyKey);
  ASSERT_TRUE(empty);
  EXPECT_TRUE(same_bits(codec->decode(*empty), at::zeros({8 * 1024})));
}

TEST(Sparse, fills_its_room_with_zeros) {
  const at::Tensor x = spread(40'000, 5'000);
  const auto encoded = make_sparse_codec(0.25)->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  const at::Tensor& values = encoded->parts[2];
  EXPECT_EQ(values.numel(), 10'000);
  EXPECT_TRUE(same_bits(values.narrow(0, 0, 5'000), at::ones({5'000})));
  EXPECT_TRUE(same_bits(values.narrow(0, 5'000, 5'000), at::zeros({5'000})));
}

TEST(Sparse, takes_the_same_bytes_whatever_the_values) {
  const auto codec = make_sparse_codec(0.5);
  const auto bytes = [&](const at::Tensor& x) {
    const Encoded encoded = codec->encode(x, kAnyKey).value();
    int64_t sum = 0;
    for (const at::Tensor& part : encoded.parts) sum += part.nbytes();
    return sum;
  };
  EXPECT_EQ(bytes(spread(65'536, 10)), bytes(spread(65'536, 32'768)));
  EXPECT_EQ(bytes(spread(65'536, 10)), 65'536 / 8 + 64 * 4 + 32'768 * 4);
}

TEST(Sparse, refuses_a_fraction_that_gains_nothing) {
  EXPECT_FALSE(make_sparse_codec(1.0)->encode(at::zeros({65'536}), kAnyKey));
  EXPECT_FALSE(make_sparse_codec(0.94)->encode(at::zeros({65'536}, at::kBFloat16), kAnyKey));
  EXPECT_TRUE(make_sparse_codec(0.93)->encode(at::zeros({65'536}, at::kBFloat16), kAnyKey));
}

TEST(Sparse, refuses_other_types_and_impossible_fractions) {
  for (const auto type : {at::kDouble, at::kInt, at::kBool}) {
    EXPECT_FALSE(make_sparse_codec(0.5)->encode(at::zeros({65'536}, type), kAnyKey)) << type;
  }
  for (const double fraction : {0.0, -0.5, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(make_sparse_codec(fraction), c10::Error) << fraction;
  }
}

}  // namespace
}  // namespace noisemark::memopt
