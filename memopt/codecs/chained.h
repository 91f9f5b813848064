#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

/// "ssdc+dpr8": what `outer` makes of a tensor is encoded in turn by `inner`: its part number
/// `part`, or every part where that is empty. Lossless where both are. Refuses what either
/// refuses; holds where both hold. Parts: those of `outer`, an encoded one replaced by the parts
/// that `inner` made of it.
[[nodiscard]] std::unique_ptr<Codec> make_chained_codec(
    std::shared_ptr<const Codec> outer, std::shared_ptr<const Codec> inner,
    std::optional<std::size_t> part = std::nullopt);

}  // namespace noisemark::memopt
