#pragma once

#include <cstdint>

#include "memopt/device/cpu_level.h"

/// Vocabulary of the CPU kernels: plain memory, no torch. A kernel's source is compiled once per
/// instruction set (`Level`) with that set's flags; arithmetic is float32 whatever the storage.
/// Results depend on the level, never on how tasks are shared out among threads.
namespace noisemark::baselines::kernels {

using Level = memopt::CpuLevel;

enum class Act : uint8_t { kNone, kSilu, kRelu };

/// Upper 16 bits of an IEEE binary32, rounded to nearest even.
struct BFloat16 {
  uint16_t bits;
};

/// Values are [samples, channels, pixels] in memory, or [samples, pixels, channels] when
/// `channels_last`.
struct Shape {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t pixels = 0;
  bool channels_last = false;
};

}  // namespace noisemark::baselines::kernels
