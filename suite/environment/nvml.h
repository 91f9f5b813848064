#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suite/environment/system.h"

/// NVIDIA's management library, opened at run time, asked about one GPU.
namespace noisemark::suite {

/// Puts an nvmlReturn_t in words: "not supported", "no permission"; "error 42" for one without.
[[nodiscard]] std::string nvml_error(int code);

/// Names an nvmlComputeMode_t: "default", "exclusive process" ...
[[nodiscard]] std::string compute_mode_name(unsigned mode);

/// Memory of one process on the GPU, as the driver counts it.
struct ProcessMemory {
  std::optional<int64_t> bytes;
  std::string missing_reason;
};

/// One of the processes that compute on the GPU.
struct GpuProcess {
  unsigned pid = 0;
  std::optional<int64_t> bytes;           ///< is empty where the driver does not say
  std::optional<unsigned> instance = {};  ///< GPU instance (MIG); empty: not divided, or unknown
};

/// Finds the memory of this program among `processes`: by its number, or, in a container, whose
/// numbers are others than the driver's, as the only one there is.
[[nodiscard]] ProcessMemory own_memory(const std::vector<GpuProcess>& processes, unsigned own_pid,
                                       bool in_container);

/// Counts which of `processes` are not this program, which is one of them where only a container's
/// numbers do not tell which; empty where it may be none of them.
[[nodiscard]] std::optional<size_t> others_of(const std::vector<GpuProcess>& processes,
                                              unsigned own_pid, bool in_container);

/// Returns those of `processes` that may be on an instance of a divided GPU: its own, and those of
/// which nobody knows.
[[nodiscard]] std::vector<GpuProcess> of_instance(const std::vector<GpuProcess>& processes,
                                                  unsigned instance);

class Nvml {
 public:
  /// `bus_id` as CUDA writes it.
  explicit Nvml(const std::string& bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Says why nothing can be asked; empty where something can.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  [[nodiscard]] std::optional<std::string> driver_version() const;
  [[nodiscard]] std::optional<std::string> text(const char* function) const;
  [[nodiscard]] std::optional<unsigned> number(const char* function) const;
  [[nodiscard]] std::optional<unsigned> clock_mhz(const char* function, int clock) const;
  /// Returns the energy that was used since the driver was loaded, in millijoules, of GPUs that
  /// count it.
  [[nodiscard]] std::optional<uint64_t> energy_mj() const;
  [[nodiscard]] std::optional<unsigned> temperature() const;
  /// NVML's mask of what holds the clocks down now.
  [[nodiscard]] std::optional<uint64_t> clock_reasons() const;
  /// Returns at most as many as fit.
  [[nodiscard]] std::optional<std::vector<GpuProcess>> processes() const;
  /// The state now, not the one after the next reset.
  [[nodiscard]] std::optional<unsigned> current_of_pair(const char* function) const;

  /// Calls `function` for this GPU, with these arguments after it, or for none; empty when there is
  /// no such function.
  template <class... Arguments>
  [[nodiscard]] std::optional<int> ask(const char* function, Arguments... arguments) const {
    if (device_ == nullptr) return std::nullopt;
    return library_.result(function, device_, arguments...);
  }
  template <class... Arguments>
  [[nodiscard]] std::optional<int> ask_library(const char* function, Arguments... arguments) const {
    if (!open_) return std::nullopt;
    return library_.result(function, arguments...);
  }

 private:
  SharedLibrary library_{"libnvidia-ml.so.1"};
  bool open_ = false;
  void* device_ = nullptr;
  std::string why_not_;
};

// Numbers of nvmlClockType_t, a stable part of NVIDIA's interface.
inline constexpr int kNvmlClockSm = 1;
inline constexpr int kNvmlClockMemory = 2;

/// Returns whether the kernel counts this program's processes apart, as containers do unless told
/// otherwise.
[[nodiscard]] bool in_process_namespace();

}  // namespace noisemark::suite
