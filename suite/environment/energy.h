#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/result/result.h"

/// Measures energy by counters that only grow.
namespace noisemark::suite {

/// Joules since some moment that nobody knows; where `range_j` is reached it begins anew at 0.
struct EnergyCounter {
  std::string name;  ///< "package-0", "GPU"
  double joules = 0;
  std::optional<double> range_j;
};

/// All counters at one moment.
struct EnergyReading {
  std::vector<EnergyCounter> counters;
  std::string missing_reason;  ///< why there is none
};

/// The energy that was used between two readings.
struct EnergyUsed {
  std::optional<double> joules;
  std::string missing_reason;
  std::string method;  ///< names of the counters
};

/// Reads the processor's packages: /sys/class/powercap/intel-rapl:N below `root`, which Linux has
/// for Intel's and AMD's processors and shows to root alone. Their parts (cores, memory) are left
/// out; so is the whole machine (psys), which holds them.
[[nodiscard]] EnergyReading processor_energy(const std::filesystem::path& root = "/");

/// Reads the GPU by its driver where `device` is one, else the processor.
[[nodiscard]] EnergyReading energy_of(const c10::Device& device);

/// Returns the energy of everything that ran meanwhile, ours or not. Nothing, with the reason,
/// where a counter is missing, went backwards without a range, or may have come round more than
/// once in `seconds`, which two readings cannot tell: at 1000 W, more than any package takes.
[[nodiscard]] EnergyUsed energy_used(const EnergyReading& before, const EnergyReading& after,
                                     double seconds);

/// The metric "energy_j": what was used from the first step of the training to its end, with
/// evaluations and whatever else ran on the processor or GPU meanwhile.
[[nodiscard]] reports::Metric energy_metric(const EnergyUsed& used);

}  // namespace noisemark::suite
