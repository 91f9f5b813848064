#pragma once

#include "suite/io/safetensors.h"
#include "suite/models/denoiser.h"

namespace noisemark::suite {

/// The model's parameters under their names in the state dict, in the peer's order; shared, not
/// copied.
[[nodiscard]] NamedTensors named_parameters(const Denoiser& model);

}  // namespace noisemark::suite
