#pragma once

#include <optional>
#include <string>

/// The facts that explain what the machine can tell and what not.

namespace noisemark::suite {

struct Surroundings {
  bool hypervisor = false;                     ///< the processor says that it is a virtual one
  bool frequency_driver = false;               ///< Linux shows the processor's frequency policy
  bool cuda_build = false;                     ///< this program has CUDA code
  std::optional<int> cuda_build_major;         ///< 13: of the toolkit that built that code
  std::optional<int> driver_cuda_version;      ///< 13000: the newest CUDA that the driver runs
  std::optional<int> cuda_init_code;           ///< result of cuInit, 0: success; empty: not asked
  bool gpu_device = false;                     ///< there is an NVIDIA device file
  bool driver_library = false;                 ///< libcuda.so.1 can be loaded
  bool nvml_library = false;                   ///< libnvidia-ml.so.1 can be loaded
  std::optional<bool> counters_for_root_only;  ///< the driver's word; empty: it says nothing
  std::optional<std::string> no_sampling;      ///< why CUPTI samples no counters of the first GPU;
                                               ///< "": it does; empty: not asked, without a GPU
  bool root = false;
  bool gnuplot = false;               ///< it is on the PATH
  bool package_list = false;          ///< Debian's list of packages can be read
  double load = 0;                    ///< average of the last minute
  int processors = 1;                 ///< processors that this process may use
  std::string energy_missing_reason;  ///< why the processor's energy is not known; empty: it is
};

/// Reads the facts. With `sampling` CUPTI is asked for the first GPU's counters, which takes them
/// from whoever profiles it for a moment: for the doctor alone.
[[nodiscard]] Surroundings look_around(bool sampling = false);

/// «RmProfilingAdminOnly: 1» in the text of /proc/driver/nvidia/params; empty without the line.
[[nodiscard]] std::optional<bool> counters_for_root_only(const std::string& driver_parameters);

/// 13 of "NVIDIA 13.0.88"; empty without a number.
[[nodiscard]] std::optional<int> major_version(const std::string& compiler);

/// Says why this program finds no GPU.
struct MissingGpu {
  std::string why;    ///< "no driver", "the driver is too old: it runs CUDA 12.4 ..."
  std::string to_do;  ///< one sentence
};

/// Returns the first reason that `around` shows for there being no GPU. A pure function.
[[nodiscard]] MissingGpu missing_gpu(const Surroundings& around);

/// Returns what is to be said where the CPU is taken because no GPU can be, though there is one:
/// with the reason. It is empty where no GPU shows itself. A pure function.
[[nodiscard]] std::string unused_gpu(const Surroundings& around);

}  // namespace noisemark::suite
