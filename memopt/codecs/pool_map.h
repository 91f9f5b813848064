#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

/// A two-dimensional max pooling; pairs are rows, columns. No figure above 2^20.
struct PoolGeometry {
  std::array<int64_t, 2> input{};     ///< height and width of the pooled planes
  std::array<int64_t, 2> kernel{};    ///< 1 to 4 each
  std::array<int64_t, 2> stride{};    ///< at least 1
  std::array<int64_t, 2> padding{};   ///< at least 0
  std::array<int64_t, 2> dilation{};  ///< at least 1
};

/// "pool4": the index map of max_pool2d_with_indices (int64, [N, C, H, W] contiguous or
/// channels-last, or [C, H, W] contiguous) as the position in each window, 4 bits: Gist's pooling
/// map (Jain et al., ISCA 2018). Lossless; refuses an index that is none
/// of 4 x 4 positions, and windows so narrow that their rows interleave in memory. With a verdict
/// on a GPU. Throws c10::Error for a geometry outside the ranges above.
[[nodiscard]] std::unique_ptr<Codec> make_pool_map_codec(const PoolGeometry& geometry);

}  // namespace noisemark::memopt
