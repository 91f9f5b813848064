#include "suite/environment/surroundings.h"

#include <dlfcn.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "suite/environment/energy.h"
#include "suite/environment/graphics.h"
#include "suite/environment/installation.h"
#include "suite/environment/pm_sampling.h"
#include "suite/environment/processor.h"
#include "suite/environment/system.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

bool loads(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split_at(path == nullptr ? "" : path, ':')) {
    if (access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

bool is_virtual() {
  const auto info = read_system_file("/proc/cpuinfo");
  const auto flags = info ? field_of(*info, "flags", ':') : std::nullopt;
  if (!flags) return false;
  const auto words = split_words(*flags);
  return std::find(words.begin(), words.end(), "hypervisor") != words.end();
}

bool has_gpu_device() {
  // The file of a MIG slice's machine or of Windows' subsystem for Linux has another name.
  for (const char* file : {"/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"}) {
    if (fs::exists(file)) return true;
  }
  return false;
}

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

}  // namespace

std::optional<bool> counters_for_root_only(const std::string& driver_parameters) {
  const auto value = field_of(driver_parameters, "RmProfilingAdminOnly", ':');
  return value ? std::optional(*value != "0") : std::nullopt;
}

std::optional<int> major_version(const std::string& compiler) {
  const size_t digits = compiler.find_first_of("0123456789");
  return digits == std::string::npos ? std::nullopt
                                     : std::optional(std::atoi(compiler.c_str() + digits));
}

Surroundings look_around(bool sampling) {
  Surroundings around;
  around.hypervisor = is_virtual();
  around.frequency_driver = fs::exists("/sys/devices/system/cpu/cpu0/cpufreq");
  around.cuda_build = !build_info().cuda_compiler.empty();
  around.cuda_build_major = major_version(std::string(build_info().cuda_compiler));
  const CudaDriver driver = ask_cuda_driver();
  around.driver_cuda_version = driver.cuda_version;
  around.cuda_init_code = driver.init_code;
  around.gpu_device = has_gpu_device();
  around.driver_library = loads("libcuda.so.1");
  around.nvml_library = loads("libnvidia-ml.so.1");
  around.counters_for_root_only =
      counters_for_root_only(read_system_file("/proc/driver/nvidia/params").value_or(""));
  if (sampling && driver.init_code == 0) around.no_sampling = why_no_sampling(0);
  around.root = geteuid() == 0;
  around.gnuplot = on_path("gnuplot");
  around.package_list = access("/var/lib/dpkg/status", R_OK) == 0;
  around.load = load_average();
  around.processors = allowed_processors();
  around.energy_missing_reason = processor_energy().missing_reason;
  return around;
}

namespace {

/// Says why the driver and this program do not work together; empty where nothing says so.
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
    return {"no driver", "Do nothing if there is no NVIDIA GPU here; else install its driver."};
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
