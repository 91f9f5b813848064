#pragma once

#include <string>

#include "memopt/example/training.h"

namespace example {

/// Which promise of `mode` its training broke, beside the same training under mode "none"; empty
/// where it kept all: a lossless mode gives the bits of "none", a budget is not exceeded, fewer
/// bytes are held for backward than under "none", and the encoder learns. A mode that moves bytes
/// to the host saves none on a CPU, and neither need a budget that "none" is within.
[[nodiscard]] std::string broken_promise(const std::string& mode, const Outcome& outcome,
                                         const Outcome& none);

}  // namespace example
