#pragma once

#include <string>

#include "suite/environment/surroundings.h"

namespace noisemark::suite {

/// Why this program finds no GPU.
struct MissingGpu {
  std::string why;    ///< "no driver", "the driver is too old: it runs CUDA 12.4 ..."
  std::string to_do;  ///< one sentence
};

/// Where there is none; the first of the reasons that `around` shows. A pure function.
[[nodiscard]] MissingGpu missing_gpu(const Surroundings& around);

/// What is to be said where the CPU is taken because no GPU can be, though there is one: with the
/// reason. Empty where no GPU shows itself. A pure function.
[[nodiscard]] std::string unused_gpu(const Surroundings& around);

}  // namespace noisemark::suite
