#pragma once

#include <cstddef>
#include <random>

namespace noisemark::reports {

/// A draw below `bound`, the same on every platform: the standard fixes the generator's sequence
/// but not that of its distributions, so this takes the high word of draw * bound. Uniform up to a
/// bias of bound / 2^64.
[[nodiscard]] inline size_t index_below(std::mt19937_64& generator, size_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<size_t>((static_cast<Wide>(generator()) * bound) >> 64U);
}

}  // namespace noisemark::reports
