#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// Those that become columns, in their order.
[[nodiscard]] const std::vector<GpmMetric>& gpm_metrics();

/// Samples nearer to each other give no values on Hopper.
inline constexpr double kGpmShortestWindow_s = 0.1;

struct GpmValue {
  std::optional<double> frac;  ///< 0 to 1
  std::string missing_reason;
};

/// Of what NVML gave for one metric: `code` is nvmlReturn_t, `percent` 0 to 100. A value that
/// cannot be, or one of too short a window, is none.
[[nodiscard]] GpmValue gpm_value(int code, double percent, double window_s);

/// Whose counters are read.
struct GpmSubject {
  void* device = nullptr;  ///< NVML's handle of the whole GPU; null: the one that is asked
  std::optional<unsigned> instance;  ///< of the GPU's instances; empty: the whole GPU
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

  /// Why there will be no values; empty where there may be.
  [[nodiscard]] const std::string& why_not() const { return subject_.why_not; }
  /// Of a divided GPU; empty: the whole GPU.
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
  std::string fault_;  ///< of this window
};

}  // namespace noisemark::suite
