#pragma once

#include <cstdint>

#include "baselines/kernels/group_norm.h"
#include "baselines/kernels/rms_norm.h"
#include "memopt/codecs/codec_device.h"
#include "memopt/replay/sample_device.h"
#include "memopt/treatment/kernels/norm_chain.h"

/// The kernels' sources as emulated, under names of their own: memopt/cuda/*.h and
/// baselines/cuda/norms.h have the contracts.

namespace noisemark::memopt::codecs {
[[nodiscard]] const CodecDevice& emulated_codec_device();
}  // namespace noisemark::memopt::codecs

namespace noisemark::memopt::treatment {
void run_emulated_norm_chain(const NormChain& job);
}  // namespace noisemark::memopt::treatment

namespace noisemark::memopt::replay {
[[nodiscard]] const SampleDevice& emulated_sample_device();
}  // namespace noisemark::memopt::replay

// The same declarations, in a namespace `emulated` beside that of the GPU's own.
#define cuda emulated
#include "baselines/cuda/norms.h"
#undef cuda
