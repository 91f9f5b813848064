#pragma once

#include "memopt/codecs/codec_device.h"

namespace noisemark::memopt::codecs {

/// Kernels on the current stream of the current device, a warp for each block.
[[nodiscard]] const CodecDevice& cuda_codec_device();

}  // namespace noisemark::memopt::codecs
