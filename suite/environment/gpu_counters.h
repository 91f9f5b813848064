#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"
#include "suite/environment/nvml.h"

/// NVML's GPU performance monitoring (GPM): shares of time and of what the hardware could do, from
/// two samples of counters, on Hopper and later. It needs no permission for profilers and does not
/// disturb them. Values are of the whole GPU, whoever used it, or of the GPU instance of a divided
/// one (MIG), whichever of its compute instances did.

namespace noisemark::suite {

struct GpmMetric {
  unsigned id = 0;          ///< nvmlGpmMetricId_t
  std::string_view name;    ///< in results: "sm_active"
  std::string_view called;  ///< by NVML: "SM_UTIL"
};

/// The metrics that become columns, in their order.
[[nodiscard]] const std::vector<GpmMetric>& gpm_metrics();

/// Samples nearer to each other give no values on Hopper.
inline constexpr double kGpmShortestWindow_s = 0.1;

struct GpmValue {
  std::optional<double> frac;  ///< 0 to 1
  std::string missing_reason;
};

/// Converts what NVML gave for one metric: `code` is nvmlReturn_t, `percent` 0 to 100. A value that
/// cannot be, or one of too short a window, is none.
[[nodiscard]] GpmValue gpm_value(int code, double percent, double window_s);

/// The GPU, or the part of one, whose counters are read.
struct GpmSubject {
  void* device = nullptr;  ///< NVML's handle of the whole GPU; null: the one that is asked
  std::optional<unsigned> instance;  ///< number of the GPU instance (MIG); empty: the whole GPU
  std::string why_not;               ///< why nothing can be read; empty: it can
};

/// `uuid` is CUDA's, "01234567-89ab-...", by which NVML finds the instance of a divided GPU.
[[nodiscard]] GpmSubject gpm_subject(const Nvml& nvml, const std::string& uuid);

/// Two samples of one GPU and what lies between them.
class GpmWindow {
 public:
  /// `nvml` must outlive it; `uuid` as of gpm_subject().
  GpmWindow(const Nvml& nvml, const std::string& uuid);
  ~GpmWindow();
  GpmWindow(const GpmWindow&) = delete;
  GpmWindow& operator=(const GpmWindow&) = delete;

  /// Says why there will be no values; empty where there may be.
  [[nodiscard]] const std::string& why_not() const { return subject_.why_not; }
  /// Returns the instance of a divided GPU; empty for the whole GPU.
  [[nodiscard]] std::optional<unsigned> instance() const { return subject_.instance; }

  void begin();
  /// One for each of gpm_metrics(), of the time since begin().
  [[nodiscard]] std::vector<GpmValue> end(double window_s);

 private:
  struct Samples;
  void take(size_t which);

  const Nvml& nvml_;
  std::unique_ptr<Samples> samples_;
  GpmSubject subject_;
  std::string fault_;  ///< failure in this window
};

/// Reads a GPU beside the programs that run on it. Tests have their own.
class GpuCounters {
 public:
  virtual ~GpuCounters() = default;
  /// Reads what the GPU is doing now, with at_s left at 0; empty where the driver does not say. On
  /// any thread, also within a window.
  [[nodiscard]] virtual reports::DeviceReading read() = 0;
  /// Returns the energy that was used since the driver was loaded.
  [[nodiscard]] virtual std::optional<uint64_t> energy_mj() = 0;
  virtual void begin_window() = 0;
  /// One for each of gpm_metrics().
  [[nodiscard]] virtual std::vector<GpmValue> end_window(double window_s) = 0;
  /// Returns the instance of a divided GPU (MIG), which the values of a window are of; power,
  /// energy, clocks and temperature are of the whole GPU even so. Empty means not divided.
  [[nodiscard]] virtual std::optional<unsigned> instance() { return std::nullopt; }
  /// Counts the processes beside this one that compute on the GPU, or on its instance; empty where
  /// that is not known.
  [[nodiscard]] virtual std::optional<size_t> other_processes() = 0;
  /// Returns the memory that this process holds, libraries and CUDA's own included.
  [[nodiscard]] virtual ProcessMemory process_memory() = 0;
};

/// The counters of NVML. `ordinal` counts as CUDA counts. What cannot be read is empty, with its
/// reason.
[[nodiscard]] std::unique_ptr<GpuCounters> make_gpu_counters(int ordinal);

}  // namespace noisemark::suite
