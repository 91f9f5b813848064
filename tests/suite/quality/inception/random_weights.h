#pragma once

#include "suite/io/safetensors.h"
#include "suite/quality/inception/weights.h"

namespace noisemark::suite::inception::test {

/// Tensors of the network's names and shapes whose features are of the size of one: He et al.'s
/// scale for the kernels, norms that are neither 1 nor 0. The same in every call.
[[nodiscard]] const NamedTensors& random_tensors();

/// Returns the weights of a file that no converter made.
[[nodiscard]] Weights random_weights();

}  // namespace noisemark::suite::inception::test
