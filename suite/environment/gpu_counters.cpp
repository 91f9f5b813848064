#include "suite/environment/gpu_counters.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "suite/environment/graphics.h"

namespace noisemark::suite {
namespace {

// The following mirrors nvml.h, which neither CUDA's toolkit nor its wheels bring everywhere.
using Sample = void*;

struct Support {
  unsigned version = 1;
  unsigned is_supported = 0;
};

struct Metric {
  unsigned id;
  int code;
  double value;
  char* short_name;
  char* long_name;
  char* unit;
};
static_assert(sizeof(Metric) == 40);

/// NVML's own array grows with every version of it; a driver reads and writes `count` entries.
constexpr size_t kRoom = 512;
struct MetricsGet {
  unsigned version = 1;
  unsigned count = 0;
  Sample first = nullptr;
  Sample second = nullptr;
  std::array<Metric, kRoom> metrics{};
};

constexpr unsigned kMigOn = 1;
constexpr double kMostPercentOfGpm = 100.5;  // rounding in the driver may add this

std::string refusal(const char* function, std::optional<int> code) {
  return code ? fmt::format("{}: {}", function, nvml_error(*code))
              : fmt::format("{}: the driver is too old to have it", function);
}

GpmSubject refused(const std::string& why_not) {
  return {nullptr, std::nullopt, why_not};
}

/// The instance of a divided GPU that CUDA calls `uuid`.
GpmSubject instance_of(const Nvml& nvml, const std::string& uuid) {
  if (uuid.empty()) return refused("the GPU is divided (MIG), and CUDA does not say which part");
  const std::string name = "MIG-" + uuid;
  void* part = nullptr;
  auto code = nvml.ask_library("nvmlDeviceGetHandleByUUID", name.c_str(), &part);
  if (code != 0) return refused(refusal("nvmlDeviceGetHandleByUUID", code));
  unsigned instance = 0;
  code = nvml.ask_library("nvmlDeviceGetGpuInstanceId", part, &instance);
  if (code != 0) return refused(refusal("nvmlDeviceGetGpuInstanceId", code));
  GpmSubject subject;
  subject.instance = instance;
  code = nvml.ask_library("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part, &subject.device);
  if (code != 0) return refused(refusal("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", code));
  return subject;
}

}  // namespace

const std::vector<GpmMetric>& gpm_metrics() {
  static const std::vector<GpmMetric> kMetrics{{1, "graphics_active", "GRAPHICS_UTIL"},
                                               {2, "sm_active", "SM_UTIL"},
                                               {3, "sm_occupancy", "SM_OCCUPANCY"},
                                               {5, "tensor_active", "ANY_TENSOR_UTIL"},
                                               {7, "tensor_half_active", "HMMA_TENSOR_UTIL"},
                                               {10, "dram_active", "DRAM_BW_UTIL"},
                                               {12, "fp32_active", "FP32_UTIL"},
                                               {13, "fp16_active", "FP16_UTIL"}};
  return kMetrics;
}

GpmValue gpm_value(int code, double percent, double window_s) {
  if (window_s < kGpmShortestWindow_s) {
    return {std::nullopt,
            fmt::format("a window of {:.0f} ms is too short: GPM needs 100 ms", 1000 * window_s)};
  }
  if (code != 0) return {std::nullopt, nvml_error(code)};
  if (!std::isfinite(percent) || percent < 0 || percent > kMostPercentOfGpm) {
    return {std::nullopt, fmt::format("the driver gave {} %, which cannot be", percent)};
  }
  return {std::min(percent, 100.0) / 100, ""};
}

struct GpmWindow::Samples {
  std::array<Sample, 2> both{};
  std::array<bool, 2> taken{};
};

GpmSubject gpm_subject(const Nvml& nvml, const std::string& uuid) {
  if (!nvml.why_not().empty()) return refused(nvml.why_not());
  GpmSubject subject;
  if (nvml.current_of_pair("nvmlDeviceGetMigMode") == kMigOn) subject = instance_of(nvml, uuid);
  if (!subject.why_not.empty()) return subject;
  Support support;
  const auto code = nvml.ask("nvmlGpmQueryDeviceSupport", &support);
  if (code != 0) return refused(refusal("nvmlGpmQueryDeviceSupport", code));
  return support.is_supported != 0 ? subject : refused("the GPU has none: GPM begins with Hopper");
}

GpmWindow::GpmWindow(const Nvml& nvml, const std::string& uuid)
    : nvml_(nvml), samples_(std::make_unique<Samples>()), subject_(gpm_subject(nvml, uuid)) {
  for (Sample& sample : samples_->both) {
    if (!why_not().empty()) return;
    const auto code = nvml_.ask_library("nvmlGpmSampleAlloc", &sample);
    if (code == 0) continue;
    sample = nullptr;
    subject_.why_not = refusal("nvmlGpmSampleAlloc", code);
  }
}

GpmWindow::~GpmWindow() {
  for (Sample sample : samples_->both) {
    if (sample != nullptr) (void)nvml_.ask_library("nvmlGpmSampleFree", sample);
  }
}

void GpmWindow::take(size_t which) {
  samples_->taken.at(which) = false;
  if (!why_not().empty()) return;
  const char* function = instance() ? "nvmlGpmMigSampleGet" : "nvmlGpmSampleGet";
  Sample sample = samples_->both.at(which);
  const auto code = instance() ? nvml_.ask_library(function, subject_.device, *instance(), sample)
                               : nvml_.ask(function, sample);
  samples_->taken.at(which) = code == 0;
  if (code != 0) fault_ = refusal(function, code);
}

void GpmWindow::begin() {
  fault_.clear();
  take(0);
}

std::vector<GpmValue> GpmWindow::end(double window_s) {
  if (!samples_->taken[0] && fault_.empty()) fault_ = "its window was never begun";
  take(1);
  const std::vector<GpmMetric>& wanted = gpm_metrics();
  std::vector<GpmValue> values(wanted.size(),
                               GpmValue{std::nullopt, why_not().empty() ? fault_ : why_not()});
  if (!samples_->taken[0] || !samples_->taken[1]) return values;
  auto get = std::make_unique<MetricsGet>();
  get->count = static_cast<unsigned>(wanted.size());
  get->first = samples_->both[0];
  get->second = samples_->both[1];
  for (size_t i = 0; i < wanted.size(); ++i) get->metrics.at(i).id = wanted[i].id;
  const auto code = nvml_.ask_library("nvmlGpmMetricsGet", get.get());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Metric& one = get->metrics.at(i);
    values[i] = code == 0 ? gpm_value(one.code, one.value, window_s)
                          : GpmValue{std::nullopt, refusal("nvmlGpmMetricsGet", code)};
  }
  return values;
}

namespace {

constexpr double kWattsPerMilliwatt = 1e-3;

std::optional<double> scaled(std::optional<unsigned> value, double factor = 1) {
  return value ? std::optional(factor * *value) : std::nullopt;
}

class NvmlCounters final : public GpuCounters {
 public:
  NvmlCounters(const std::string& bus_id, const std::string& uuid)
      : nvml_(bus_id), window_(nvml_, uuid) {}

  reports::DeviceReading read() override {
    reports::DeviceReading reading;
    reading.power_w = scaled(nvml_.number("nvmlDeviceGetPowerUsage"), kWattsPerMilliwatt);
    reading.sm_clock_mhz = scaled(nvml_.clock_mhz("nvmlDeviceGetClockInfo", kNvmlClockSm));
    reading.memory_clock_mhz = scaled(nvml_.clock_mhz("nvmlDeviceGetClockInfo", kNvmlClockMemory));
    reading.temperature_c = scaled(nvml_.temperature());
    if (const auto mask = nvml_.clock_reasons()) {
      reading.clock_reasons = static_cast<int64_t>(*mask);
    }
    return reading;
  }
  std::optional<uint64_t> energy_mj() override { return nvml_.energy_mj(); }
  void begin_window() override { window_.begin(); }
  std::vector<GpmValue> end_window(double window_s) override { return window_.end(window_s); }
  std::optional<unsigned> instance() override { return window_.instance(); }
  std::optional<size_t> other_processes() override {
    auto processes = nvml_.processes();
    if (processes && instance()) processes = of_instance(*processes, *instance());
    return processes
               ? others_of(*processes, static_cast<unsigned>(getpid()), in_process_namespace())
               : std::nullopt;
  }
  ProcessMemory process_memory() override {
    const auto processes = nvml_.processes();
    if (!processes) {
      return {std::nullopt,
              nvml_.why_not().empty() ? "the driver does not list processes" : nvml_.why_not()};
    }
    return own_memory(*processes, static_cast<unsigned>(getpid()), in_process_namespace());
  }

 private:
  Nvml nvml_;
  GpmWindow window_;
};

}  // namespace

std::unique_ptr<GpuCounters> make_gpu_counters(int ordinal) {
  return std::make_unique<NvmlCounters>(gpu_bus_id(ordinal), gpu_uuid(ordinal));
}

}  // namespace noisemark::suite
