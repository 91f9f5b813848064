#include "suite/environment/graphics.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "reports/sha256.h"

namespace noisemark::suite {
namespace {

using reports::Strings;

/// A shared library opened for as long as the object lives.
class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Calls `name`; false when the library or the function is missing, or it returns an error.
  template <class... Arguments>
  [[nodiscard]] bool call(const char* name, Arguments... arguments) const {
    if (handle_ == nullptr) return false;
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    return function != nullptr && function(arguments...) == 0;
  }

 private:
  void* handle_;
};

// Numbers of CUdevice_attribute and nvmlClockType_t, stable parts of NVIDIA's interfaces.
constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;
constexpr int kMultiprocessors = 16;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kSensorGpu = 0;

// Of nvmlClocksEventReasons.
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

/// nvmlProcessInfo_t of the functions that end in _v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct CudaDevice {
  Strings hardware;
  std::string bus_id;
};

CudaDevice ask_cuda(int ordinal) {
  CudaDevice result;
  const Library cuda("libcuda.so.1");
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
  return result;
}

/// NVML of one device.
class Nvml {
 public:
  explicit Nvml(const std::string& bus_id) {
    open_ = library_.call("nvmlInit_v2");
    if (open_ && !library_.call("nvmlDeviceGetHandleByPciBusId_v2", bus_id.c_str(), &device_)) {
      device_ = nullptr;
    }
  }
  ~Nvml() {
    if (open_) (void)library_.call("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::optional<std::string> driver_version() const {
    std::array<char, 96> text{};
    const auto size = static_cast<unsigned>(text.size());
    if (!open_ || !library_.call("nvmlSystemGetDriverVersion", text.data(), size)) return {};
    return text.data();
  }
  [[nodiscard]] std::optional<std::string> text(const char* function) const {
    std::array<char, 96> text{};
    const auto size = static_cast<unsigned>(text.size());
    if (device_ == nullptr || !library_.call(function, device_, text.data(), size)) return {};
    return text.data();
  }
  [[nodiscard]] std::optional<unsigned> number(const char* function) const {
    unsigned value = 0;
    if (device_ == nullptr || !library_.call(function, device_, &value)) return {};
    return value;
  }
  [[nodiscard]] std::optional<unsigned> clock_mhz(const char* function, int clock) const {
    unsigned value = 0;
    if (device_ == nullptr || !library_.call(function, device_, clock, &value)) return {};
    return value;
  }
  /// Since the driver was loaded, in millijoules; of GPUs that count it.
  [[nodiscard]] std::optional<unsigned long long> energy_mj() const {
    unsigned long long value = 0;
    const char* function = "nvmlDeviceGetTotalEnergyConsumption";
    if (device_ == nullptr || !library_.call(function, device_, &value)) return {};
    return value;
  }
  [[nodiscard]] std::optional<unsigned> temperature() const {
    unsigned celsius = 0;
    const bool known = device_ != nullptr &&
                       library_.call("nvmlDeviceGetTemperature", device_, kSensorGpu, &celsius);
    return known ? std::optional(celsius) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::string> reasons() const {
    unsigned long long mask = 0;
    // The second is the name in drivers before 535.
    for (const char* function :
         {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}) {
      if (device_ != nullptr && library_.call(function, device_, &mask)) return clock_reasons(mask);
    }
    return {};
  }
  /// Processes that compute on the GPU, but for this one; at most as many as fit.
  [[nodiscard]] std::optional<size_t> other_processes() const {
    std::array<ProcessInfo, 256> infos{};
    auto count = static_cast<unsigned>(infos.size());
    const bool known =
        device_ != nullptr &&
        library_.call("nvmlDeviceGetComputeRunningProcesses_v3", device_, &count, infos.data());
    if (!known) return {};
    const auto own = static_cast<unsigned>(getpid());
    const auto end = infos.begin() + std::min<size_t>(count, infos.size());
    return static_cast<size_t>(std::count_if(
        infos.begin(), end, [own](const ProcessInfo& info) { return info.pid != own; }));
  }
  /// The state now, not the one after the next reset.
  [[nodiscard]] std::optional<unsigned> current_of_pair(const char* function) const {
    unsigned current = 0;
    unsigned pending = 0;
    if (device_ == nullptr || !library_.call(function, device_, &current, &pending)) return {};
    return current;
  }

 private:
  Library library_{"libnvidia-ml.so.1"};
  bool open_ = false;
  void* device_ = nullptr;
};

template <class T>
void put(Strings& strings, const std::string& key, const std::optional<T>& value) {
  if (value) strings[key] = fmt::format("{}", *value);
}

void put_switch(Strings& strings, const std::string& key, const std::optional<unsigned>& value) {
  if (value) strings[key] = *value == 0 ? "off" : "on";
}

constexpr std::string_view kOfContainer = " seen from a container";
constexpr std::string_view kFirstNamespace = "pid:[4026531836]";  // PROC_PID_INIT_INO of Linux

/// Whether the kernel counts this program's processes apart, as containers do unless told
/// otherwise.
bool in_process_namespace() {
  std::error_code error;
  const auto name = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return error || name.string() != kFirstNamespace;
}

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
      clock_policy(nvml.clock_mhz("nvmlDeviceGetApplicationsClock", kClockSm),
                   nvml.clock_mhz("nvmlDeviceGetDefaultApplicationsClock", kClockSm));
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
  put(environment, "gpu_sm_clock_max_mhz", nvml.clock_mhz("nvmlDeviceGetMaxClockInfo", kClockSm));
  put(environment, "gpu_memory_clock_max_mhz",
      nvml.clock_mhz("nvmlDeviceGetMaxClockInfo", kClockMemory));
  put(environment, "gpu_sm_clock_mhz", nvml.clock_mhz("nvmlDeviceGetClockInfo", kClockSm));
  put(environment, "gpu_memory_clock_mhz", nvml.clock_mhz("nvmlDeviceGetClockInfo", kClockMemory));
  put(environment, "gpu_sm_clock_applications_mhz",
      nvml.clock_mhz("nvmlDeviceGetApplicationsClock", kClockSm));
  put(environment, "gpu_memory_clock_applications_mhz",
      nvml.clock_mhz("nvmlDeviceGetApplicationsClock", kClockMemory));
  put(environment, "gpu_performance_state", nvml.number("nvmlDeviceGetPerformanceState"));
  put(environment, "gpu_pcie_generation", nvml.number("nvmlDeviceGetCurrPcieLinkGeneration"));
  put(environment, "gpu_pcie_width", nvml.number("nvmlDeviceGetCurrPcieLinkWidth"));
  put(environment, "gpu_energy_mj", nvml.energy_mj());
  put(environment, "gpu_clock_reasons", nvml.reasons());
  put(environment, "gpu_power_mw", nvml.number("nvmlDeviceGetPowerUsage"));
  put(environment, "gpu_temperature_c", nvml.temperature());
  if (const auto count = nvml.other_processes()) {
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
