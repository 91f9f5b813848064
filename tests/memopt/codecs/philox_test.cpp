#include "memopt/codecs/arithmetic/philox.h"

#include <ATen/core/PhiloxRNGEngine.h>
#include <gtest/gtest.h>

#include <array>

namespace noisemark::memopt::codecs {
namespace {

std::array<uint32_t, 4> words_of(PhiloxWords counter, uint32_t low, uint32_t high) {
  const PhiloxWords words = philox(counter, low, high);
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}

// The known answers that the authors publish with their code, Random123.
TEST(CodecPhilox, gives_the_published_answers) {
  EXPECT_EQ(words_of({{0, 0, 0, 0}}, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(words_of({{ones, ones, ones, ones}}, ones, ones),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words_of({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CodecPhilox, agrees_with_libtorchs_engine) {
  for (const uint64_t seed : {0ULL, 5ULL, 0x123456789abcdef0ULL}) {
    for (const uint64_t offset : {0ULL, 1ULL, 77777ULL}) {
      at::Philox4_32 engine(seed, /*subsequence=*/9, offset);
      const auto words =
          words_of({{static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), 9, 0}},
                   static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
      for (const uint32_t word : words) EXPECT_EQ(word, engine()) << seed << " " << offset;
    }
  }
}

}  // namespace
}  // namespace noisemark::memopt::codecs
