#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"

/// Changes of a machine while something ran on it, as Result::environment keeps them.
namespace noisemark::reports {

/// Key of Result::environment: the settings of the machine that changed while it ran, or "nothing";
/// absent: nobody looked.
inline constexpr std::string_view kChangedWhileItRan = "changed while it ran";

/// Prefix of a key of Result::environment that holds a value after training, where it differs from
/// the one before.
inline constexpr std::string_view kAtTheEnd = "at the end: ";

/// Key of Result::environment: what holds a GPU's clocks down, in words joined by ", ".
inline constexpr std::string_view kClockReasons = "gpu_clock_reasons";

/// Keys of Result::environment that say how the machine was just then.
inline constexpr std::array<std::string_view, 9> kReadings{
    "cpu_clock_mhz",        "cpu_steal_s",           "gpu_energy_mj",
    "gpu_memory_clock_mhz", "gpu_performance_state", "gpu_power_mw",
    "gpu_sm_clock_mhz",     "gpu_temperature_c",     "load_average"};

/// Returns the settings of a machine: Result::environment without readings, counts of events, and
/// changes while it ran.
[[nodiscard]] Strings settings_of(const Strings& environment);

/// Returns whether two readings of it differ at most in how much the GPU had to do: an idle one
/// names neither the cap on its power nor clocks that were set, under which it works all along.
[[nodiscard]] bool same_clock_reasons(const std::string& before, const std::string& after);

/// Returns the settings that changed, by name; none also where nobody looked.
[[nodiscard]] std::vector<std::string> changes_while_it_ran(const Strings& environment);

/// Returns those clock reasons by which a GPU slows itself down: too hot, short of power; each
/// once. A cap on its power is how it always runs and does not count. It is empty where it did not,
/// or nobody could tell.
[[nodiscard]] std::string slow_downs(const std::string& reasons);

/// Returns those of the readings before and after training.
[[nodiscard]] std::string slow_downs(const Strings& environment);

}  // namespace noisemark::reports
