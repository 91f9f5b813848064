#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

/// Logarithm, sine and cosine in double precision, made of IEEE additions, multiplications and
/// divisions alone. The C library picks another implementation per processor (with or without fused
/// multiply-add), which may change the last bit; these are the same bits everywhere and free of
/// branches, so that compilers vectorise loops over them. Arguments are integers, so range
/// reduction is exact. Relies on round-to-nearest and on -ffp-contract=off. normal_kernels() makes
/// standard normals of them in bulk: many Philox blocks at once, in the widest vectors of the
/// processor.
namespace noisemark::suite {

/// Exact conversion that every instruction set can vectorise (2^52 + k has k as its low bits).
[[nodiscard, gnu::always_inline]] inline double exact_double(uint32_t k) {
  return std::bit_cast<double>(uint64_t{0x4330000000000000} | k) - 0x1p52;
}

/// -ln((k + 1) / 2^32), in [0, 22.2), relative error below 1e-15.
[[nodiscard, gnu::always_inline]] inline double negative_log(uint32_t k) {
  constexpr uint64_t kMantissa = 0x000fffffffffffff;
  constexpr uint64_t kOne = 0x3ff0000000000000;
  const auto bits = std::bit_cast<uint64_t>(exact_double(k) + 1.0);
  const double mantissa = std::bit_cast<double>((bits & kMantissa) | kOne);  // [1, 2)
  const double exponent = exact_double(static_cast<uint32_t>(bits >> 52)) - 1023.0;
  const bool upper = mantissa > std::numbers::sqrt2;
  const double m = upper ? 0.5 * mantissa : mantissa;  // [sqrt(1/2), sqrt(2)]
  const double e = upper ? exponent + 1.0 : exponent;
  // ln m = 2 atanh(s), |s| <= 0.1716: the first term left out is below 3e-17.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 1.0 / 19.0;
  series = series * z + 1.0 / 17.0;
  series = series * z + 1.0 / 15.0;
  series = series * z + 1.0 / 13.0;
  series = series * z + 1.0 / 11.0;
  series = series * z + 1.0 / 9.0;
  series = series * z + 1.0 / 7.0;
  series = series * z + 1.0 / 5.0;
  series = series * z + 1.0 / 3.0;
  series = series * z + 1.0;
  return (32.0 - e) * std::numbers::ln2 - 2.0 * s * series;
}

struct SinCos {
  double sin;
  double cos;
};

/// Sine and cosine of 2 pi turn / 2^32, absolute error below 3e-16.
[[nodiscard, gnu::always_inline]] inline SinCos sin_cos_turn(uint32_t turn) {
  const uint32_t quarter = (turn + 0x20000000U) >> 30;  // nearest quarter turn
  const auto rest = static_cast<int32_t>(turn - (quarter << 30));
  const double a = static_cast<double>(rest) * (0x1p-31 * std::numbers::pi);  // |a| <= pi / 4
  const double z = a * a;
  double sine = -1.0 / 1307674368000.0;  // Taylor series; the first terms left out are below 5e-17
  sine = sine * z + 1.0 / 6227020800.0;
  sine = sine * z - 1.0 / 39916800.0;
  sine = sine * z + 1.0 / 362880.0;
  sine = sine * z - 1.0 / 5040.0;
  sine = sine * z + 1.0 / 120.0;
  sine = sine * z - 1.0 / 6.0;
  sine = a + a * z * sine;
  double cosine = 1.0 / 20922789888000.0;
  cosine = cosine * z - 1.0 / 87178291200.0;
  cosine = cosine * z + 1.0 / 479001600.0;
  cosine = cosine * z - 1.0 / 3628800.0;
  cosine = cosine * z + 1.0 / 40320.0;
  cosine = cosine * z - 1.0 / 720.0;
  cosine = cosine * z + 1.0 / 24.0;
  cosine = cosine * z - 0.5;
  cosine = 1.0 + z * cosine;
  const bool swap = (quarter & 1U) != 0;
  const auto sine_sign = uint64_t{quarter & 2U} << 62;
  const auto cosine_sign = uint64_t{(quarter + 1U) & 2U} << 62;
  return {std::bit_cast<double>(std::bit_cast<uint64_t>(swap ? cosine : sine) ^ sine_sign),
          std::bit_cast<double>(std::bit_cast<uint64_t>(swap ? sine : cosine) ^ cosine_sign)};
}

/// Key and counter of Philox4x32-10 (Salmon et al. 2011), as at::Philox4_32 holds them.
struct PhiloxPosition {
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> counter;  ///< counter[0] is the block
};

inline constexpr int64_t kNormalBlocks = 64;            ///< blocks of one kernel call
inline constexpr int64_t kNormals = 4 * kNormalBlocks;  ///< normals of one kernel call

/// Box-Muller on blocks counter[0] ... counter[0] + 63 (no carry into counter[1]). The four words
/// w of block b give out[4b] = r(w0) cos(w1), r(w0) sin(w1), r(w2) cos(w3), r(w2) sin(w3) with
/// r(w) = sqrt(-2 ln((w + 1) / 2^32)) and angles in turns of 2^32.
using NormalKernel = void (*)(const PhiloxPosition& position, std::span<double, kNormals> out);

struct NormalKernelEntry {
  std::string_view instruction_set;
  NormalKernel kernel;
};

/// The kernels that this processor can run, the fastest last. All give the same bits.
[[nodiscard]] const std::vector<NormalKernelEntry>& normal_kernels();

}  // namespace noisemark::suite
