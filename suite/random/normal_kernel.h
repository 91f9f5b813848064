#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

/// Standard normals in bulk: many Philox blocks at once, in the widest vectors of the processor.
namespace noisemark::suite {

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

/// Those this processor can run, the fastest last. All give the same bits.
[[nodiscard]] const std::vector<NormalKernelEntry>& normal_kernels();

}  // namespace noisemark::suite
