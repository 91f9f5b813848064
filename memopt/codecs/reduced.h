#pragma once

#include <memory>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

/// "dpr16", "dpr10", "dpr8": Gist's delayed precision reduction (Jain et al., ISCA 2018). `bits` is
/// 16, 10 or 8, else throws c10::Error.
///
/// | bits | sign, exponent, mantissa | bias | largest | smallest normal, subnormal | in a word |
/// |---|---|---|---|---|---|
/// | 16 | 1-5-10, IEEE binary16 | 15 | 65504 | 2^-14, 2^-24 | two |
/// | 10 | 1-5-4 | 15 | 63488 | 2^-14, 2^-18 | three, bits 30 and 31 are 0 |
/// | 8 | 1-4-3 | 7 | 240 | 2^-6, 2^-9 | four |
///
/// Laid out as IEEE 754 does: an exponent field of zeros holds subnormals, one of ones infinity and
/// NaN. Each element is first multiplied by 2^k, k common to the tensor and such that its largest
/// finite magnitude falls below the format's 2^(bias + 1) by less than a factor of 2. Then round to
/// nearest, ties to even. What rounds beyond the largest finite value becomes that value;
/// infinities stay; NaN keeps its sign and leading payload bits; so does the sign of zero. The
/// relative error of an element is at most 2^-(mantissa bits + 1) where its code is normal.
///
/// Takes float32 and, 10 and 8 bits, bfloat16 and float16. Parts: words (arithmetic/fields.h),
/// int32; the tensor's largest finite magnitude as bits of a float32, int32 [1], whose top bit says
/// that there are infinities or NaN.
[[nodiscard]] std::unique_ptr<Codec> make_reduced_codec(int bits);

}  // namespace noisemark::memopt
