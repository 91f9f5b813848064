#include "suite/random/normal_kernel.h"

#include <ATen/core/PhiloxRNGEngine.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "suite/random/elementary.h"

namespace noisemark::suite {
namespace {

constexpr PhiloxPosition kPosition{{0xa4093822U, 0x299f31d0U},
                                   {0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}};

std::array<uint64_t, kNormals> bits_of(NormalKernel kernel, const PhiloxPosition& position) {
  std::array<double, kNormals> normals{};
  kernel(position, normals);
  return std::bit_cast<std::array<uint64_t, kNormals>>(normals);
}

TEST(NormalKernel, every_instruction_set_gives_the_same_bits) {
  const auto& kernels = normal_kernels();
  ASSERT_FALSE(kernels.empty());
  for (uint32_t call = 0; call < 100; ++call) {
    PhiloxPosition position = kPosition;
    position.counter[0] += call * uint32_t{kNormalBlocks};
    const auto expected = bits_of(kernels.front().kernel, position);
    for (const auto& entry : kernels) {
      ASSERT_EQ(bits_of(entry.kernel, position), expected) << entry.instruction_set;
    }
  }
}

TEST(NormalKernel, is_box_muller_on_the_words_of_atens_philox) {
  at::Philox4_32 engine(uint64_t{kPosition.key[1]} << 32 | kPosition.key[0],
                        uint64_t{kPosition.counter[3]} << 32 | kPosition.counter[2]);
  engine.set_offset(uint64_t{kPosition.counter[1]} << 32 | kPosition.counter[0]);
  std::array<double, kNormals> normals{};
  normal_kernels().back().kernel(kPosition, normals);
  for (size_t pair = 0; pair < normals.size() / 2; ++pair) {
    const double radius = std::sqrt(2.0 * negative_log(engine()));
    const SinCos angle = sin_cos_turn(engine());
    ASSERT_EQ(normals[2 * pair], radius * angle.cos);
    ASSERT_EQ(normals[2 * pair + 1], radius * angle.sin);
  }
}

}  // namespace
}  // namespace noisemark::suite
