#include "suite/random/elementary.h"

#include <cmath>

namespace noisemark::suite {
namespace {

using Words = std::array<std::array<uint32_t, kNormalBlocks>, 4>;

[[gnu::always_inline]] inline void philox_blocks(const PhiloxPosition& position, Words& words) {
  const auto [k0, k1] = position.key;
  const auto [c0, c1, c2, c3] = position.counter;
  for (uint32_t lane = 0; lane < kNormalBlocks; ++lane) {
    uint32_t a = c0 + lane;
    uint32_t b = c1;
    uint32_t c = c2;
    uint32_t d = c3;
#pragma GCC unroll 10
    for (uint32_t round = 0; round < 10; ++round) {
      const uint64_t left = uint64_t{a} * 0xD2511F53U;
      const uint64_t right = uint64_t{c} * 0xCD9E8D57U;
      a = static_cast<uint32_t>(right >> 32) ^ b ^ (k0 + round * 0x9E3779B9U);
      b = static_cast<uint32_t>(right);
      c = static_cast<uint32_t>(left >> 32) ^ d ^ (k1 + round * 0xBB67AE85U);
      d = static_cast<uint32_t>(left);
    }
    words[0][lane] = a;
    words[1][lane] = b;
    words[2][lane] = c;
    words[3][lane] = d;
  }
}

[[gnu::always_inline]] inline void normals(const PhiloxPosition& position,
                                           std::span<double, kNormals> out) {
  alignas(64) Words words;
  philox_blocks(position, words);
  for (size_t pair = 0; pair < 2; ++pair) {
    alignas(64) std::array<double, kNormalBlocks> first;
    alignas(64) std::array<double, kNormalBlocks> second;
    for (size_t lane = 0; lane < kNormalBlocks; ++lane) {
      const double radius = std::sqrt(2.0 * negative_log(words[2 * pair][lane]));
      const SinCos angle = sin_cos_turn(words[2 * pair + 1][lane]);
      first[lane] = radius * angle.cos;
      second[lane] = radius * angle.sin;
    }
    for (size_t lane = 0; lane < kNormalBlocks; ++lane) {
      out[4 * lane + 2 * pair] = first[lane];
      out[4 * lane + 2 * pair + 1] = second[lane];
    }
  }
}

void normals_portable(const PhiloxPosition& position, std::span<double, kNormals> out) {
  normals(position, out);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void normals_avx2(const PhiloxPosition& position,
                                          std::span<double, kNormals> out) {
  normals(position, out);
}

[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512")]] void normals_avx512(
    const PhiloxPosition& position, std::span<double, kNormals> out) {
  normals(position, out);
}
#endif

std::vector<NormalKernelEntry> find_kernels() {
  std::vector<NormalKernelEntry> kernels{{"portable", normals_portable}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) kernels.push_back({"avx2", normals_avx2});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
    kernels.push_back({"avx512", normals_avx512});
  }
#endif
  return kernels;
}

}  // namespace

const std::vector<NormalKernelEntry>& normal_kernels() {
  static const std::vector<NormalKernelEntry> kernels = find_kernels();
  return kernels;
}

}  // namespace noisemark::suite
