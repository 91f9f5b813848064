#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result.h"

/// What of a machine changed while something ran on it, as Result::environment keeps it.
namespace noisemark::reports {

/// Key of Result::environment: the settings of the machine that changed while it ran, or "nothing";
/// absent: nobody looked.
inline constexpr std::string_view kChangedWhileItRan = "changed while it ran";

/// In front of a key of Result::environment: what it was after training, where that is not what it
/// was before.
inline constexpr std::string_view kAtTheEnd = "at the end: ";

/// Key of Result::environment: what holds a GPU's clocks down, in words joined by ", ".
inline constexpr std::string_view kClockReasons = "gpu_clock_reasons";

/// Keys of Result::environment that say how the machine was just then.
inline constexpr std::array<std::string_view, 9> kReadings{
    "cpu_clock_mhz",        "cpu_steal_s",           "gpu_energy_mj",
    "gpu_memory_clock_mhz", "gpu_performance_state", "gpu_power_mw",
    "gpu_sm_clock_mhz",     "gpu_temperature_c",     "load_average"};

/// What was set on a machine: Result::environment without readings, counts of events, and what
/// changed while it ran.
[[nodiscard]] Strings settings_of(const Strings& environment);

/// Whether two readings of it differ at most in how much the GPU had to do: an idle one names
/// neither the cap on its power nor clocks that were set, under which it works all along.
[[nodiscard]] bool same_clock_reasons(const std::string& before, const std::string& after);

/// The settings that changed, by name; none also where nobody looked. A change of load that an
/// older program took for one is left out.
[[nodiscard]] std::vector<std::string> changes_while_it_ran(const Strings& environment);

/// Those of clock reasons by which a GPU slows itself down: too hot, short of power; each once. A
/// cap on its power is how it always runs and does not count. Empty: it did not, or nobody could
/// tell.
[[nodiscard]] std::string slow_downs(const std::string& reasons);

/// The same of what was read before and after.
[[nodiscard]] std::string slow_downs(const Strings& environment);

}  // namespace noisemark::reports
