#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "memopt/codecs/codec.h"

/// What the codecs with a fixed number of bits for each element have in common. Their parts are the
/// words (arithmetic/fields.h), int32, and where the form needs one number of the whole tensor
/// that number, int32 [1].
namespace noisemark::memopt::codecs {

struct FieldJob;

/// `job` says the form, and its parameters; the rest is filled in here. `fits`: whatever the
/// values, the form is known to hold them. Empty as Codec::encode().
[[nodiscard]] std::optional<Encoded> encode_fields(const at::Tensor& x, FieldJob job,
                                                   bool fits = false);
[[nodiscard]] at::Tensor decode_fields(const Codec& codec, const Encoded& encoded, FieldJob job);

}  // namespace noisemark::memopt::codecs
