#include "suite/environment/nvml.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>

namespace noisemark::suite {
namespace {

constexpr int kSensorGpu = 0;
constexpr std::string_view kFirstNamespace = "pid:[4026531836]";  // PROC_PID_INIT_INO of Linux

constexpr std::array kNvmlErrors{
    ErrorName{1, "NVML is not initialised"},
    ErrorName{2, "not accepted by this driver"},
    ErrorName{3, "not supported by this GPU or driver"},
    ErrorName{4, "no permission"},
    ErrorName{6, "not found"},
    ErrorName{9, "the driver is not loaded"},
    ErrorName{13, "the driver is too old to have it"},
    ErrorName{15, "the GPU is lost"},
    ErrorName{18, "the library is of another version than the driver"},
    ErrorName{25, "the driver is too old or too new for this request"}};

/// nvmlProcessInfo_t of the functions that end in _v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
constexpr unsigned long long kNotAvailable = std::numeric_limits<unsigned long long>::max();
constexpr unsigned kNoInstance = std::numeric_limits<unsigned>::max();

}  // namespace

std::string nvml_error(int code) {
  for (const ErrorName& error : kNvmlErrors) {
    if (error.code == code) return std::string(error.words);
  }
  return fmt::format("NVML error {}", code);
}

std::string compute_mode_name(unsigned mode) {
  constexpr std::array kModes{"default", "exclusive thread", "prohibited", "exclusive process"};
  return mode < kModes.size() ? kModes.at(mode) : fmt::format("mode {}", mode);
}

ProcessMemory own_memory(const std::vector<GpuProcess>& processes, unsigned own_pid,
                         bool in_container) {
  const auto own = std::find_if(processes.begin(), processes.end(),
                                [&](const GpuProcess& one) { return one.pid == own_pid; });
  const GpuProcess* found = own == processes.end() ? nullptr : &*own;
  if (found == nullptr && in_container && processes.size() == 1) found = &processes.front();
  if (found == nullptr) {
    return {std::nullopt, in_container && !processes.empty()
                              ? fmt::format("{} processes on the GPU, and a container cannot tell "
                                            "which is this one",
                                            processes.size())
                              : "the driver does not list this process"};
  }
  if (!found->bytes) return {std::nullopt, "the driver does not say how much a process holds"};
  return {found->bytes, ""};
}

std::optional<size_t> others_of(const std::vector<GpuProcess>& processes, unsigned own_pid,
                                bool in_container) {
  const auto others =
      static_cast<size_t>(std::count_if(processes.begin(), processes.end(),
                                        [&](const GpuProcess& one) { return one.pid != own_pid; }));
  if (others < processes.size() || !in_container) return others;
  return processes.empty() ? std::nullopt : std::optional(others - 1);
}

std::vector<GpuProcess> of_instance(const std::vector<GpuProcess>& processes, unsigned instance) {
  std::vector<GpuProcess> its_own;
  std::copy_if(processes.begin(), processes.end(), std::back_inserter(its_own),
               [&](const GpuProcess& one) { return one.instance.value_or(instance) == instance; });
  return its_own;
}

Nvml::Nvml(const std::string& bus_id) {
  const auto opened = library_.result("nvmlInit_v2");
  open_ = opened == 0;
  if (!library_.loaded()) {
    why_not_ = "libnvidia-ml.so.1 cannot be loaded";
  } else if (!open_) {
    why_not_ = opened ? "nvmlInit_v2: " + nvml_error(*opened) : "the driver is too old for NVML 2";
  } else if (!library_.call("nvmlDeviceGetHandleByPciBusId_v2", bus_id.c_str(), &device_)) {
    device_ = nullptr;
    why_not_ = "NVML does not know the GPU at " + bus_id;
  }
}

Nvml::~Nvml() {
  if (open_) (void)library_.call("nvmlShutdown");
}

std::optional<std::string> Nvml::driver_version() const {
  std::array<char, 96> text{};
  const auto size = static_cast<unsigned>(text.size());
  if (ask_library("nvmlSystemGetDriverVersion", text.data(), size) != 0) return {};
  return text.data();
}

std::optional<std::string> Nvml::text(const char* function) const {
  std::array<char, 96> text{};
  const auto size = static_cast<unsigned>(text.size());
  if (ask(function, text.data(), size) != 0) return {};
  return text.data();
}

std::optional<unsigned> Nvml::number(const char* function) const {
  unsigned value = 0;
  if (ask(function, &value) != 0) return {};
  return value;
}

std::optional<unsigned> Nvml::clock_mhz(const char* function, int clock) const {
  unsigned value = 0;
  if (ask(function, clock, &value) != 0) return {};
  return value;
}

std::optional<uint64_t> Nvml::energy_mj() const {
  unsigned long long value = 0;
  if (ask("nvmlDeviceGetTotalEnergyConsumption", &value) != 0) return {};
  return value;
}

std::optional<unsigned> Nvml::temperature() const {
  unsigned celsius = 0;
  if (ask("nvmlDeviceGetTemperature", kSensorGpu, &celsius) != 0) return {};
  return celsius;
}

std::optional<uint64_t> Nvml::clock_reasons() const {
  unsigned long long mask = 0;
  // The second is the name in drivers before 535.
  for (const char* function :
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}) {
    if (ask(function, &mask) == 0) return mask;
  }
  return {};
}

std::optional<std::vector<GpuProcess>> Nvml::processes() const {
  std::array<ProcessInfo, 256> infos{};
  auto count = static_cast<unsigned>(infos.size());
  if (ask("nvmlDeviceGetComputeRunningProcesses_v3", &count, infos.data()) != 0) return {};
  std::vector<GpuProcess> all;
  for (size_t i = 0; i < std::min<size_t>(count, infos.size()); ++i) {
    GpuProcess one;
    one.pid = infos.at(i).pid;
    if (infos.at(i).used_bytes != kNotAvailable) {
      one.bytes = static_cast<int64_t>(infos.at(i).used_bytes);
    }
    if (infos.at(i).gpu_instance != kNoInstance) one.instance = infos.at(i).gpu_instance;
    all.push_back(one);
  }
  return all;
}

std::optional<unsigned> Nvml::current_of_pair(const char* function) const {
  unsigned current = 0;
  unsigned pending = 0;
  if (ask(function, &current, &pending) != 0) return {};
  return current;
}

bool in_process_namespace() {
  std::error_code error;
  const auto name = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return error || name.string() != kFirstNamespace;
}

}  // namespace noisemark::suite
