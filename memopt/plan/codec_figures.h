#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

namespace noisemark::memopt {

class Codec;
struct RecordedValue;

/// The figures of a codec for one value.
struct CodecFigure {
  int64_t bytes = 0;
  int64_t encode_ns = 0;
  int64_t decode_ns = 0;
};
using CodecFigures = std::function<CodecFigure(const Codec&, const RecordedValue&)>;

/// Tells what codecs make of values on `device`: the bytes of their parts, and times that are
/// measured once in a process for each form of a codec, type and model of device, and in proportion
/// for other sizes. They are measured on what a codec is for, the first of these that it takes:
/// normals through ReLU with about 69, 50, 38 or 27 % left (so sparse storage is nearly as full as
/// its room allows), float32 of bfloat16 or float16, dropout's noise, zeros. Times are medians of
/// several runs. A codec that takes none of them is taken to gain nothing.
///
/// Figures are not kept beyond the process: they also depend on driver, clocks, library versions
/// and other load, which are in no key.
[[nodiscard]] CodecFigures measured_codec_figures(c10::Device device);

}  // namespace noisemark::memopt
