#include "suite/environment/processor_pace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "suite/environment/system_file.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::Strings;

constexpr const char* kProcessors = "sys/devices/system/cpu";

// One value each.
constexpr std::pair<const char*, const char*> kFiles[] = {
    {"cpu_frequency_driver", "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"},
    {"cpu_frequency_min_khz", "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq"},
    {"cpu_frequency_max_khz", "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq"},
    {"cpu_energy_preference", "sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference"},
    {"cpus_isolated", "sys/devices/system/cpu/isolated"},
    {"numa_nodes", "sys/devices/system/node/online"},
    {"aslr", "proc/sys/kernel/randomize_va_space"},
    {"clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource"}};

std::optional<int64_t> number_in(const std::optional<std::string>& text) {
  int64_t number = 0;
  if (!text) return std::nullopt;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

std::string text_of(const fs::path& file) {
  return read_system_file(file.string()).value_or("");
}

/// Of all processors; empty where none has a count.
std::optional<int64_t> thermal_throttles(const fs::path& root) {
  std::optional<int64_t> sum;
  std::error_code error;
  for (fs::directory_iterator at(root / kProcessors, error), end; !error && at != end;
       at.increment(error)) {
    const fs::path file = at->path() / "thermal_throttle" / "core_throttle_count";
    if (const auto count = number_in(read_system_file(file.string()))) {
      sum = sum.value_or(0) + *count;
    }
  }
  return sum;
}

/// Of the control group that a container sees as the root, of version 2 or 1.
std::optional<int64_t> quota_throttles(const fs::path& root) {
  for (const char* file : {"sys/fs/cgroup/cpu.stat", "sys/fs/cgroup/cpu/cpu.stat"}) {
    if (auto count = number_in(field_of(text_of(root / file), "nr_throttled", ' '))) return count;
  }
  return std::nullopt;
}

/// The eighth figure of the line "cpu ", in ticks: time that a virtual machine wanted and did not
/// get.
std::optional<std::string> steal_s(const fs::path& root) {
  constexpr size_t kSteal = 8;
  const std::string stat = text_of(root / "proc/stat");
  const auto words = split_words(std::string_view(stat).substr(0, stat.find('\n')));
  if (words.size() <= kSteal || words.front() != "cpu") return std::nullopt;
  const auto ticks = number_in(words[kSteal]);
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (!ticks || !(per_second > 0)) return std::nullopt;
  return fmt::format("{:.2f}", static_cast<double>(*ticks) / per_second);
}

template <class T>
void put(Strings& strings, const char* key, const std::optional<T>& value) {
  if (value) strings[key] = fmt::format("{}", *value);
}

}  // namespace

Strings processor_pace(const fs::path& root) {
  Strings result;
  for (const auto& [key, file] : kFiles) {
    const std::string value = text_of(root / file);
    if (!value.empty()) result[key] = value;
  }
  put(result, "cpu_clock_mhz", field_of(text_of(root / "proc/cpuinfo"), "cpu MHz", ':'));
  put(result, "cpu_thermal_throttles", thermal_throttles(root));
  put(result, "cpu_quota_throttles", quota_throttles(root));
  put(result, "cpu_steal_s", steal_s(root));
  put(result, "cpus_allowed",
      field_of(text_of(root / "proc/self/status"), "Cpus_allowed_list", ':'));
  if (const auto kib = number_in(field_of(text_of(root / "proc/meminfo"), "SwapTotal", ':'))) {
    result["swap_bytes"] = std::to_string(*kib * 1024);
  }
  return result;
}

}  // namespace noisemark::suite
