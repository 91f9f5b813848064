#pragma once

#include <memory>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

/// "mask1": bool, or a floating tensor in which every element is +0 or has the bits of one other
/// value, as the noise of dropout; 1 bit each. The value is found in the tensor, so nothing need be
/// known of it. Gist (Jain et al., ISCA 2018) does this for masks. With a verdict on a GPU, except
/// for bool.
[[nodiscard]] std::unique_ptr<Codec> make_mask_codec();

/// "sign1": 1 bit, 1 where "x <= 0" is false (so for NaN too); decoded as 1.0 and 0. Not lossless,
/// but keeps_sign(): for a result of ReLU whose one use in backward is ReLU's own (Gist's
/// Binarize).
[[nodiscard]] std::unique_ptr<Codec> make_sign_codec();

}  // namespace noisemark::memopt
