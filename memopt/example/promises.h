#pragma once

#include <string>

#include "memopt/example/training.h"

namespace example {

/// All losses and weights are.
[[nodiscard]] bool same_bits_as(const Outcome& a, const Outcome& b);

/// Names the promise of `mode` that its training broke, beside the same training under mode "none";
/// empty where it kept all: a lossless mode gives the bits of "none", a budget is not exceeded,
/// no more bytes are held for backward than under "none", neither when forward ends nor at the
/// peak, and the model learns. A mode that moves bytes to the host may hold more on a CPU, whose
/// memory is the host's: at the peak twice as many, since it fetches ahead.
[[nodiscard]] std::string broken_promise(const std::string& mode, const Outcome& outcome,
                                         const Outcome& none);

}  // namespace example
