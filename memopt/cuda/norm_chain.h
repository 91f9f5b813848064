#pragma once

#include "memopt/replay/kernels/norm_chain.h"

namespace noisemark::memopt::replay {

/// All of a job, on the current stream of the current device; its pointers are to that device's
/// memory.
void run_norm_chain_on_cuda(const NormChain& job);

}  // namespace noisemark::memopt::replay
