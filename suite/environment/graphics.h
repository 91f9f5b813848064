#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "reports/result/result.h"

/// Asks NVIDIA's driver about one GPU. The driver's libraries (libcuda, NVML) are opened at
/// run time, so that the same code serves builds and machines without a GPU: everything is empty
/// there.
namespace noisemark::suite {

struct Graphics {
  reports::Strings
      hardware;  ///< gpu_model, gpu_memory_mib, gpu_compute_capability, gpu_mig, gpu_clocks ...
  reports::Strings software;     ///< cuda_driver
  reports::Strings environment;  ///< clocks and why they are what they are, power, energy,
                                 ///< temperature, persistence, VBIOS, link, other processes; the
                                 ///< SHA-256 of the UUID, which tells two GPUs of a kind apart
};

/// `ordinal` counts as CUDA counts, after CUDA_VISIBLE_DEVICES.
[[nodiscard]] Graphics describe_gpu(int ordinal);

/// CUDA's bus address of the GPU; empty where there is none.
[[nodiscard]] std::string gpu_bus_id(int ordinal);

/// CUDA's name of the GPU, or of the part of a divided one, "01234567-89ab-cdef-0123-456789abcdef";
/// empty where there is none.
[[nodiscard]] std::string gpu_uuid(int ordinal);

/// A key of Graphics::environment, whose value is kReachable, or why NVML gives no utilization
/// columns.
inline constexpr const char* kGpuColumns = "gpu_utilization_columns";
inline constexpr const char* kReachable = "reachable";

/// The driver's answers before any device is used; empty where there is none.
struct CudaDriver {
  std::optional<int> cuda_version;  ///< the newest that it runs: 13000 for 13.0
  std::optional<int> init_code;     ///< result of cuInit, 0: success
};
[[nodiscard]] CudaDriver ask_cuda_driver();

/// Says in words why CUDA could not be initialised.
[[nodiscard]] std::string cuda_init_error(int code);

/// Words gpu_other_processes for `count` processes, of which this program is none that could be
/// told by its number. In a container numbers are others than the driver's, and a driver may show a
/// container its own processes only.
[[nodiscard]] std::string process_count(size_t count, bool in_container);

/// Returns whether process_count() said that it is of a container.
[[nodiscard]] bool is_count_of_container(const std::string& count);

/// The clocks policy, part of the identity: "default", or "set to N MHz" when another clock than
/// the default one is set for applications; empty where the driver does not say. A clock locked
/// for graphics is told by no driver.
[[nodiscard]] std::string clock_policy(std::optional<unsigned> set_mhz,
                                       std::optional<unsigned> default_mhz);

/// NVML's mask of what holds the clocks down, in words joined by ", "; "none" for 0. Bits without a
/// name stay hexadecimal.
[[nodiscard]] std::string clock_reasons(uint64_t mask);

}  // namespace noisemark::suite
