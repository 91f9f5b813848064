#include "suite/environment/graphics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "reports/base/sha256.h"
#include "suite/environment/gpu_counters.h"
#include "suite/environment/nvml.h"
#include "suite/environment/system.h"

namespace noisemark::suite {
namespace {

using reports::Strings;

constexpr const char* kCudaLibrary = "libcuda.so.1";

// Numbers of CUdevice_attribute, a stable part of NVIDIA's interface.
constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;
constexpr int kMultiprocessors = 16;

// The bits of nvmlClocksEventReasons.
struct ClockReason {
  uint64_t bit;
  const char* name;
};
constexpr std::array kClockReasons{ClockReason{0x1, "idle"},
                                   ClockReason{0x2, "clocks set for applications"},
                                   ClockReason{0x4, "power cap"},
                                   ClockReason{0x8, "hardware slow-down"},
                                   ClockReason{0x10, "synchronised boost"},
                                   ClockReason{0x20, "thermal slow-down"},
                                   ClockReason{0x40, "hardware thermal slow-down"},
                                   ClockReason{0x80, "power brake"},
                                   ClockReason{0x100, "display clocks"}};

// The values of CUresult that cuInit returns.
struct InitError {
  int code;
  std::string_view words;
};
constexpr std::array kInitErrors{
    InitError{34, "the library is a stub of the toolkit, not the driver's"},
    InitError{100, "no device that CUDA can use"},
    InitError{101, "no such device"},
    InitError{802, "the system is not ready: NVIDIA's fabric manager has not started"},
    InitError{803, "the driver's library is of another version than its kernel module"},
    InitError{804, "forward compatibility was asked for on hardware that has none"},
    InitError{999, "unknown error: the kernel module may have failed"}};

struct CudaDevice {
  Strings hardware;
  std::string bus_id;
  std::string uuid;
};

using Uuid = std::array<uint8_t, 16>;

/// Writes it in hexadecimal, in the usual groups.
std::string text_of(const Uuid& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.at(i));
  }
  return text;
}

CudaDevice ask_cuda(int ordinal) {
  CudaDevice result;
  const SharedLibrary cuda(kCudaLibrary);
  int device = 0;
  if (!cuda.call("cuInit", 0U) || !cuda.call("cuDeviceGet", &device, ordinal)) return result;
  std::array<char, 256> text{};
  const int size = static_cast<int>(text.size());
  if (cuda.call("cuDeviceGetName", text.data(), size, device)) {
    result.hardware["gpu_model"] = text.data();
  }
  size_t bytes = 0;
  if (cuda.call("cuDeviceTotalMem_v2", &bytes, device)) {
    result.hardware["gpu_memory_mib"] = std::to_string(bytes >> 20);
  }
  int major = 0;
  int minor = 0;
  if (cuda.call("cuDeviceGetAttribute", &major, kComputeMajor, device) &&
      cuda.call("cuDeviceGetAttribute", &minor, kComputeMinor, device)) {
    result.hardware["gpu_compute_capability"] = fmt::format("{}.{}", major, minor);
  }
  int multiprocessors = 0;
  if (cuda.call("cuDeviceGetAttribute", &multiprocessors, kMultiprocessors, device)) {
    result.hardware["gpu_multiprocessors"] = std::to_string(multiprocessors);
  }
  if (cuda.call("cuDeviceGetPCIBusId", text.data(), size, device)) result.bus_id = text.data();
  Uuid uuid{};
  if (cuda.call("cuDeviceGetUuid_v2", uuid.data(), device)) result.uuid = text_of(uuid);
  return result;
}

/// Processes that compute on the GPU, but for one of this program's number.
std::optional<size_t> other_processes(const Nvml& nvml) {
  const auto all = nvml.processes();
  if (!all) return {};
  return others_of(*all, static_cast<unsigned>(getpid()), /*in_container=*/false);
}

template <class T>
void put(Strings& strings, const std::string& key, const std::optional<T>& value) {
  if (value) strings[key] = fmt::format("{}", *value);
}

void put_switch(Strings& strings, const std::string& key, const std::optional<unsigned>& value) {
  if (value) strings[key] = *value == 0 ? "off" : "on";
}

constexpr std::string_view kOfContainer = " seen from a container";

}  // namespace

std::string process_count(size_t count, bool in_container) {
  return fmt::format("{}{}", count, in_container ? kOfContainer : "");
}

bool is_count_of_container(const std::string& count) {
  return count.ends_with(kOfContainer);
}

std::string clock_policy(std::optional<unsigned> set_mhz, std::optional<unsigned> default_mhz) {
  if (!set_mhz || !default_mhz) return "";
  return set_mhz == default_mhz ? "default" : fmt::format("set to {} MHz", *set_mhz);
}

std::string gpu_bus_id(int ordinal) {
  return ask_cuda(ordinal).bus_id;
}

std::string gpu_uuid(int ordinal) {
  return ask_cuda(ordinal).uuid;
}

CudaDriver ask_cuda_driver() {
  const SharedLibrary cuda(kCudaLibrary);
  CudaDriver driver;
  int version = 0;
  if (cuda.call("cuDriverGetVersion", &version)) driver.cuda_version = version;
  driver.init_code = cuda.result("cuInit", 0U);
  return driver;
}

std::string cuda_init_error(int code) {
  for (const InitError& error : kInitErrors) {
    if (error.code == code) return std::string(error.words);
  }
  return fmt::format("CUDA error {}", code);
}

Graphics describe_gpu(int ordinal) {
  Graphics result;
  const CudaDevice device = ask_cuda(ordinal);
  result.hardware = device.hardware;
  if (device.bus_id.empty()) return result;
  const Nvml nvml(device.bus_id);
  put(result.software, "cuda_driver", nvml.driver_version());
  put_switch(result.hardware, "gpu_mig", nvml.current_of_pair("nvmlDeviceGetMigMode"));
  put_switch(result.hardware, "gpu_ecc", nvml.current_of_pair("nvmlDeviceGetEccMode"));
  const std::string policy =
      clock_policy(nvml.clock_mhz("nvmlDeviceGetApplicationsClock", kNvmlClockSm),
                   nvml.clock_mhz("nvmlDeviceGetDefaultApplicationsClock", kNvmlClockSm));
  if (!policy.empty()) result.hardware["gpu_clocks"] = policy;
  Strings& environment = result.environment;
  if (const auto uuid = nvml.text("nvmlDeviceGetUUID")) {
    environment["gpu_uuid_sha256"] = reports::sha256_of(*uuid);
  }
  put(environment, "gpu_vbios", nvml.text("nvmlDeviceGetVbiosVersion"));
  put(environment, "gpu_power_limit_mw", nvml.number("nvmlDeviceGetEnforcedPowerLimit"));
  put(environment, "gpu_power_limit_default_mw",
      nvml.number("nvmlDeviceGetPowerManagementDefaultLimit"));
  put_switch(environment, "gpu_persistence", nvml.number("nvmlDeviceGetPersistenceMode"));
  put(environment, "gpu_sm_clock_max_mhz",
      nvml.clock_mhz("nvmlDeviceGetMaxClockInfo", kNvmlClockSm));
  put(environment, "gpu_memory_clock_max_mhz",
      nvml.clock_mhz("nvmlDeviceGetMaxClockInfo", kNvmlClockMemory));
  put(environment, "gpu_sm_clock_mhz", nvml.clock_mhz("nvmlDeviceGetClockInfo", kNvmlClockSm));
  put(environment, "gpu_memory_clock_mhz",
      nvml.clock_mhz("nvmlDeviceGetClockInfo", kNvmlClockMemory));
  put(environment, "gpu_sm_clock_applications_mhz",
      nvml.clock_mhz("nvmlDeviceGetApplicationsClock", kNvmlClockSm));
  put(environment, "gpu_memory_clock_applications_mhz",
      nvml.clock_mhz("nvmlDeviceGetApplicationsClock", kNvmlClockMemory));
  put(environment, "gpu_performance_state", nvml.number("nvmlDeviceGetPerformanceState"));
  put(environment, "gpu_pcie_generation", nvml.number("nvmlDeviceGetCurrPcieLinkGeneration"));
  put(environment, "gpu_pcie_width", nvml.number("nvmlDeviceGetCurrPcieLinkWidth"));
  put(environment, "gpu_energy_mj", nvml.energy_mj());
  if (const auto mask = nvml.clock_reasons()) {
    environment["gpu_clock_reasons"] = clock_reasons(*mask);
  }
  put(environment, "gpu_power_mw", nvml.number("nvmlDeviceGetPowerUsage"));
  put(environment, "gpu_temperature_c", nvml.temperature());
  if (const auto mode = nvml.number("nvmlDeviceGetComputeMode")) {
    environment["gpu_compute_mode"] = compute_mode_name(*mode);
  }
  const std::string no_gpm = gpm_subject(nvml, device.uuid).why_not;
  environment[kGpuColumns] = no_gpm.empty() ? kReachable : no_gpm;
  if (const auto count = other_processes(nvml)) {
    environment["gpu_other_processes"] = process_count(*count, in_process_namespace());
  }
  return result;
}

std::string clock_reasons(uint64_t mask) {
  std::vector<std::string> words;
  for (const ClockReason& reason : kClockReasons) {
    if ((mask & reason.bit) != 0) words.emplace_back(reason.name);
    mask &= ~reason.bit;
  }
  if (mask != 0) words.push_back(fmt::format("{:#x}", mask));
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace noisemark::suite
