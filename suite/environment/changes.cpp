#include "suite/environment/changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "reports/environment_changes.h"
#include "suite/environment/graphics.h"
#include "suite/environment/processor.h"

namespace noisemark::suite {
namespace {

using reports::Strings;

constexpr std::array kSettings = {"cgroup_cpu_max",
                                  "cgroup_memory_max",
                                  "cpu_energy_preference",
                                  "cpu_frequency_max_khz",
                                  "cpu_frequency_min_khz",
                                  "cpu_governor",
                                  "cpu_quota_throttles",
                                  "cpu_smt",
                                  "cpu_thermal_throttles",
                                  "cpu_turbo",
                                  "gpu_clock_reasons",
                                  "gpu_memory_clock_applications_mhz",
                                  "gpu_memory_clock_max_mhz",
                                  "gpu_other_processes",
                                  "gpu_persistence",
                                  "gpu_power_limit_mw",
                                  "gpu_sm_clock_applications_mhz",
                                  "gpu_sm_clock_max_mhz",
                                  "transparent_hugepage"};
constexpr const char* kUnknown = "not known";

std::string value_of(const Strings& strings, const std::string& key) {
  const auto found = strings.find(key);
  return found == strings.end() ? kUnknown : found->second;
}

bool equal(const std::string& key, const std::string& before, const std::string& after) {
  if (key == reports::kClockReasons) return reports::same_clock_reasons(before, after);
  if (key == "gpu_other_processes" && is_count_of_container(before)) return true;
  return before == after;
}

}  // namespace

Strings machine_state(const c10::Device& device) {
  Strings state = processor_environment();
  if (device.is_cuda()) {
    const Graphics gpu = describe_gpu(device.has_index() ? device.index() : 0);
    state.insert(gpu.environment.begin(), gpu.environment.end());
  }
  return state;
}

void add_changes(Strings& environment, const Strings& end) {
  const Strings before = environment;
  std::vector<std::string> changed;
  const auto add = [&](const std::string& key) {
    const std::string after = value_of(end, key);
    if (value_of(before, key) == after) return;
    environment[std::string(reports::kAtTheEnd) + key] = after;
  };
  for (const std::string_view key : reports::kReadings) add(std::string(key));
  for (const char* key : kSettings) {
    add(key);
    if (!equal(key, value_of(before, key), value_of(end, key))) changed.emplace_back(key);
  }
  environment[std::string(reports::kChangedWhileItRan)] =
      changed.empty() ? "nothing" : fmt::format("{}", fmt::join(changed, ", "));
}

}  // namespace noisemark::suite
