#include "suite/environment/missing_gpu.h"

#include <fmt/format.h>

#include <optional>

#include "suite/environment/graphics.h"

namespace noisemark::suite {
namespace {

/// Why the driver and this program do not work together; empty where nothing says so.
std::optional<MissingGpu> driver_fault(const Surroundings& around) {
  const auto newest = around.driver_cuda_version;
  if (newest && around.cuda_build_major && *newest / 1000 < *around.cuda_build_major) {
    return MissingGpu{
        fmt::format("the driver is too old: it runs CUDA {}.{}, this program needs {}",
                    *newest / 1000, *newest % 1000 / 10, *around.cuda_build_major),
        "Install a newer driver, or build with an older toolkit."};
  }
  if (!around.cuda_init_code || *around.cuda_init_code == 0) return std::nullopt;
  return MissingGpu{"CUDA cannot be started: " + cuda_init_error(*around.cuda_init_code),
                    "Look at `nvidia-smi`, at CUDA_VISIBLE_DEVICES and at the kernel's log "
                    "(`dmesg`)."};
}

}  // namespace

MissingGpu missing_gpu(const Surroundings& around) {
  if (!around.gpu_device && !around.driver_library) {
    return {"no driver", "Nothing, if there is no NVIDIA GPU here; else install its driver."};
  }
  if (!around.gpu_device) {
    return {"no device file", "In a container: start it with the GPU (`--gpus all`, `--nv`)."};
  }
  if (!around.driver_library) {
    return {"libcuda.so.1 cannot be loaded",
            "Install the driver's libraries; in a container: start it with `--gpus all` or `--nv`, "
            "which brings them."};
  }
  if (!around.cuda_build) {
    return {"this program was built without CUDA", "Build with the preset `release`."};
  }
  if (const auto fault = driver_fault(around)) return *fault;
  return {"the driver was not asked, or has no device for this process",
          "Look at CUDA_VISIBLE_DEVICES and `nvidia-smi`; `--device cuda` asks."};
}

std::string unused_gpu(const Surroundings& around) {
  if (!around.gpu_device) return "";
  return "the GPU here cannot be used: " + missing_gpu(around).why +
         " (see `noisemark doctor`); the CPU is taken";
}

}  // namespace noisemark::suite
