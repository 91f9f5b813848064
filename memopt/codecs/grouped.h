#pragma once

#include <memory>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

/// "q4", "q2": groups of 256 elements that follow each other in memory, each element a code of 4 or
/// 2 bits between the group's minimum and maximum, rounded at random to one of its two neighbours
/// so that the expected value is the element (ActNN, Chen et al., ICML 2021). `bits` is 4 or 2,
/// else throws c10::Error.
///
/// decoded = (minimum + code * step) * 2^-k; minimum and step are float16, the first rounded down,
/// the second up; k is common to the tensor and takes its largest finite magnitude into [2^14,
/// 2^15). The code of an exact (element * 2^k - minimum) / step = i + f is i + 1 where r + 0.5 <
/// 65536 f, else i. r is 16 bits of Philox 4x32-10 with key seed and counter (low and high half of
/// 32 * group + lane, storage, step): element e of a group has lane e % 32 and half word e / 32. A
/// group with an infinity or a NaN decodes to NaN.
///
/// Takes float32, bfloat16 and float16. Parts: words (arithmetic/fields.h), int32; a word for each
/// group, minimum in its lower half, int32; the tensor's extent as in reduced.h, int32 [1].
[[nodiscard]] std::unique_ptr<Codec> make_grouped_codec(int bits);

}  // namespace noisemark::memopt
