#pragma once

#include <memory>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

/// "ssdc": sparse storage, dense compute, after Gist (Jain et al., ISCA 2018), but with a bit for
/// each element instead of indices, and room for a fixed fraction of the elements, so that a GPU
/// needs no answer from the host before it stores. Lossless: zero is +0 only, -0 is stored. Takes
/// float32, bfloat16 and float16; refuses more values than there is room for. With a verdict on a
/// GPU.
///
/// Parts: the bits as words (arithmetic/fields.h), int32; for each block of 1024 elements the
/// offset of its first value, int32; the values in memory order, [capacity] of the tensor's type,
/// zeros behind the last (so that another codec may encode that part in turn).
///
/// `capacity_frac` in (0, 1], else throws c10::Error: room for ceil(capacity_frac * elements).
[[nodiscard]] std::unique_ptr<Codec> make_sparse_codec(double capacity_frac);

}  // namespace noisemark::memopt
