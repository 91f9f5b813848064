#include <utility>

#include "tests/gpu_emulator/emulated_kernels.h"

namespace noisemark::memopt::codecs {

// Stands in the place of CUB's, which is not ours to test.
void emulated_exclusive_sum(uint32_t* numbers, int64_t count) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exchange(numbers[i], sum);
}

}  // namespace noisemark::memopt::codecs
