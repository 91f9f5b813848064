#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/codec_device.h"
#include "tests/memopt/codecs/bits.h"

// The GPU's search on the host: each thread takes its share, blocks join what their threads found,
// and one word joins the blocks.
namespace noisemark::memopt::codecs {
namespace {

template <typename Type>
Extent extent_in_shares(const std::vector<typename Type::Bits>& x, size_t blocks, size_t threads) {
  Extent all = 0;
  for (size_t block = 0; block < blocks; ++block) {
    Extent of_block = 0;
    for (size_t thread = 0; thread < threads; ++thread) {
      ExtentSearch<Type> search;
      for (size_t i = block * threads + thread; i < x.size(); i += blocks * threads) {
        search.take(x[i]);
      }
      of_block = joined(of_block, search.extent());
    }
    // What a block leaves out because it changes nothing must change nothing.
    if (joined(all, of_block) != all) all = joined(all, of_block);
  }
  return all;
}

template <typename Type>
void expect_the_cpus(Real real, const std::vector<typename Type::Bits>& x) {
  uint32_t number = 0xdeadbeef;
  SearchJob job;
  job.real = real;
  job.x = x.data();
  job.count = static_cast<int64_t>(x.size());
  job.number = &number;
  cpu_codec_device().find_extent(job);
  EXPECT_EQ(extent_in_shares<Type>(x, 3, 64), number) << x.size();
  EXPECT_EQ(extent_in_shares<Type>(x, 1, 1), number) << x.size();
}

std::vector<uint32_t> finite(size_t count) {
  std::vector<uint32_t> all(count);
  uint32_t state = 9;
  for (uint32_t& bits : all) {
    state = state * 1664525 + 1013904223;
    bits = state % 0x7f000000 | (state & 0x80000000);
  }
  return all;
}

TEST(Extent, of_shares_joined_is_that_of_the_whole) {
  for (const size_t count : {1, 5, 63, 64, 1000, 4096}) {
    const std::vector<uint32_t> numbers = finite(count);
    expect_the_cpus<Float32>(Real::kFloat32, numbers);
    std::vector<uint16_t> halves;
    for (const uint32_t bits : numbers) halves.push_back(static_cast<uint16_t>(bits >> 16));
    expect_the_cpus<BFloat16>(Real::kBFloat16, halves);
    expect_the_cpus<Float16>(Real::kFloat16, halves);
  }
}

TEST(Extent, keeps_what_is_not_finite_from_any_place_and_is_no_larger_for_it) {
  for (const size_t place : {0, 1, 63, 191, 192, 999}) {
    for (const uint32_t special : {0x7f800000U, 0xff800000U, 0x7fc00001U, 0xffffffffU}) {
      std::vector<uint32_t> numbers = finite(1000);
      numbers[place] = 0;
      const Extent without = extent_in_shares<Float32>(numbers, 3, 64);
      numbers[place] = special;
      EXPECT_EQ(extent_in_shares<Float32>(numbers, 3, 64), without | kSignBit);
      expect_the_cpus<Float32>(Real::kFloat32, numbers);
    }
  }
}

TEST(Extent, of_zeros_and_of_every_kind_of_value_is_the_cpus) {
  expect_the_cpus<Float32>(Real::kFloat32, std::vector<uint32_t>(100, 0));
  expect_the_cpus<Float32>(Real::kFloat32, std::vector<uint32_t>(100, kSignBit));
  expect_the_cpus<Float32>(Real::kFloat32, test::float_classes());
}

}  // namespace
}  // namespace noisemark::memopt::codecs
