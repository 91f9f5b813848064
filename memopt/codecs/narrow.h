#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

/// float32 as bfloat16 ("narrow") or float16 ("narrow_fp16") where every element survives bit for
/// bit, as autocast's float32 copy of a bfloat16 tensor does. Two to a word. With a verdict on a
/// GPU, but of what is known to be such a copy (EncodeKey::cast_from). `to` is bfloat16 or float16,
/// else throws c10::Error.
[[nodiscard]] std::unique_ptr<Codec> make_narrow_codec(at::ScalarType to = at::kBFloat16);

}  // namespace noisemark::memopt
