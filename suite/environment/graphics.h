#pragma once

#include <cstdint>
#include <string>

#include "reports/result.h"

/// What NVIDIA's driver says about one GPU. The driver's libraries (libcuda, NVML) are opened at
/// run time, so that the same code serves builds and machines without a GPU: everything is empty
/// there.
namespace noisemark::suite {

struct Graphics {
  reports::Strings hardware;     ///< gpu_model, gpu_memory_mib, gpu_compute_capability, gpu_mig ...
  reports::Strings software;     ///< cuda_driver
  reports::Strings environment;  ///< clocks and why they are what they are, power, temperature,
                                 ///< persistence, VBIOS, other processes
};

/// `ordinal` counts as CUDA counts, after CUDA_VISIBLE_DEVICES.
[[nodiscard]] Graphics describe_gpu(int ordinal);

/// NVML's mask of what holds the clocks down, in words joined by ", "; "none" for 0. Bits without a
/// name stay hexadecimal.
[[nodiscard]] std::string clock_reasons(uint64_t mask);

}  // namespace noisemark::suite
