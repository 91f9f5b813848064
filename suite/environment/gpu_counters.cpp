#include "suite/environment/gpu_counters.h"

#include <unistd.h>

#include "suite/environment/graphics.h"

namespace noisemark::suite {
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
