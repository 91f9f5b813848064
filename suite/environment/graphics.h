#pragma once

#include <cstdint>

#include "reports/result.h"

/// What NVIDIA's driver says about one GPU. The driver's libraries (libcuda, NVML) are opened at
/// run time, so that the same code serves builds and machines without a GPU: everything is empty
/// there.
namespace noisemark::suite {

struct Graphics {
  reports::Strings hardware;     ///< gpu_model, gpu_memory_mib, gpu_compute_capability, gpu_mig ...
  reports::Strings software;     ///< cuda_driver
  reports::Strings environment;  ///< clocks, power limit, ECC, persistence, VBIOS
};

/// `ordinal` counts as CUDA counts, after CUDA_VISIBLE_DEVICES.
[[nodiscard]] Graphics describe_gpu(int ordinal);

}  // namespace noisemark::suite
