#pragma once

#include <c10/core/Device.h>

#include "memopt/plan/peak_timeline.h"

namespace noisemark::memopt {

/// What codecs make of values on `device`: measured on a tensor of zeros, once per codec, type and
/// device in a process, and in proportion for other sizes. A codec that does not take zeros is
/// taken to gain nothing.
[[nodiscard]] CodecFigures measured_codec_figures(c10::Device device);

}  // namespace noisemark::memopt
