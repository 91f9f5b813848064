#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/bits.h"

namespace noisemark::memopt::codecs {

struct PhiloxWords {
  uint32_t word[4];
};

/// Philox 4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), with its
/// usual 10 rounds: four random words from a counter and a key.
template <int kRounds = 10>
NOISEMARK_SHARED PhiloxWords philox(PhiloxWords counter, uint32_t key_low, uint32_t key_high) {
  // Recursion instead of a loop: vectorisers then find no loop inside the caller's.
  if constexpr (kRounds == 0) {
    return counter;
  } else {
    const uint64_t product0 = static_cast<uint64_t>(counter.word[0]) * 0xD2511F53U;
    const uint64_t product2 = static_cast<uint64_t>(counter.word[2]) * 0xCD9E8D57U;
    const uint32_t high0 = static_cast<uint32_t>(product0 >> 32);
    const uint32_t high2 = static_cast<uint32_t>(product2 >> 32);
    return philox<kRounds - 1>(
        {{high2 ^ counter.word[1] ^ key_low, static_cast<uint32_t>(product2),
          high0 ^ counter.word[3] ^ key_high, static_cast<uint32_t>(product0)}},
        key_low + 0x9E3779B9U, key_high + 0xBB67AE85U);
  }
}

}  // namespace noisemark::memopt::codecs
