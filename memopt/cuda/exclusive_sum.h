#pragma once

#include <cstdint>

namespace noisemark::memopt::codecs {

/// Replaces each of `count` numbers by the sum of those before it, on the current stream of the
/// current device; all of them add up to less than 2^32. Takes scratch memory of LibTorch's
/// allocator, which after the first time has it at hand, and does not wait.
void exclusive_sum_on_cuda(uint32_t* numbers, int64_t count);

}  // namespace noisemark::memopt::codecs
