#include "suite/environment/processor.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ATen/Version.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <latch>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "suite/environment/system.h"

namespace noisemark::suite {
namespace {

using reports::Strings;

struct IsaRule {
  std::string_view name;
  std::vector<std::string_view> flags;  ///< flags beyond those of the rules below it
};

// oneDNN's published order, highest first (its developer guide, "CPU Dispatcher Control").
const std::vector<IsaRule>& isa_rules() {
  static const std::vector<IsaRule> kRules = {
      {"avx512_core_amx_fp16", {"amx_fp16", "amx_tile", "amx_bf16", "amx_int8", "avx512_fp16"}},
      {"avx512_core_amx", {"amx_tile", "amx_bf16", "amx_int8", "avx512_fp16"}},
      {"avx512_core_fp16", {"avx512_fp16", "avx512_bf16", "avx512_vnni"}},
      {"avx512_core_bf16", {"avx512_bf16", "avx512_vnni"}},
      {"avx512_core_vnni", {"avx512_vnni", "avx512bw"}},
      {"avx512_core", {"avx512f", "avx512bw", "avx512vl", "avx512dq"}},
      {"avx2_vnni", {"avx_vnni", "avx2"}},
      {"avx2", {"avx2"}},
      {"avx", {"avx"}},
      {"sse41", {"sse4_1"}},
  };
  return kRules;
}

void put(Strings& strings, const std::string& key, const std::optional<std::string>& value) {
  if (value && !value->empty()) strings[key] = *value;
}

void put_file(Strings& strings, const std::string& key, const std::string& path) {
  put(strings, key, read_system_file(path));
}

// Kibibytes of a /proc/meminfo line, "16316412 kB".
std::optional<int64_t> memory_kib() {
  const auto text = read_system_file("/proc/meminfo");
  const auto field = text ? field_of(*text, "MemTotal", ':') : std::nullopt;
  int64_t kib = 0;
  if (!field) return std::nullopt;
  const auto [stop, error] = std::from_chars(field->data(), field->data() + field->size(), kib);
  return error == std::errc{} ? std::optional<int64_t>(kib) : std::nullopt;
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<std::string> turbo() {
  if (const auto off = read_system_file("/sys/devices/system/cpu/intel_pstate/no_turbo")) {
    return *off == "1" ? "off" : "on";
  }
  if (const auto on = read_system_file("/sys/devices/system/cpu/cpufreq/boost")) {
    return *on == "1" ? "on" : "off";
  }
  return std::nullopt;
}

}  // namespace

int allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::string onednn_isa(const std::vector<std::string>& cpu_flags, std::string_view cap) {
  const auto has = [&](std::string_view flag) {
    return std::find(cpu_flags.begin(), cpu_flags.end(), flag) != cpu_flags.end();
  };
  const std::string limit = reports::lower_case(cap);
  const auto& rules = isa_rules();
  auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const IsaRule& r) { return r.name == limit; });
  if (rule == rules.end()) rule = rules.begin();
  for (; rule != rules.end(); ++rule) {
    if (std::all_of(rule->flags.begin(), rule->flags.end(), has)) return std::string(rule->name);
  }
  return "";
}

void require_threads(int64_t threads) {
  std::latch release(1);
  std::vector<std::jthread> all;
  try {
    for (int64_t i = 0; i < threads; ++i) all.emplace_back([&] { release.wait(); });
  } catch (...) {
    release.count_down();
    throw;
  }
  release.count_down();
}

Strings processor_identity() {
  Strings result;
  const std::string info = read_system_file("/proc/cpuinfo").value_or("");
  put(result, "cpu_model", field_of(info, "model name", ':'));
  result["cpu_isa"] = at::get_cpu_capability();
  const auto flags = field_of(info, "flags", ':');
  if (flags) {
    const std::string cap = environment_variable("ONEDNN_MAX_CPU_ISA");
    put(result, "onednn_isa", onednn_isa(split_words(*flags), cap));
  }
  put(result, "cpu_cores", field_of(info, "cpu cores", ':'));
  result["cpu_threads"] = std::to_string(allowed_processors());
  if (const auto kib = memory_kib()) {
    result["memory_gib"] = std::to_string((*kib + (1 << 19)) >> 20);
  }
  const std::string policy = cpu_clock_policy(processor_environment());
  if (!policy.empty()) result["cpu_clocks"] = policy;
  return result;
}

std::string cpu_clock_policy(const Strings& environment) {
  std::string policy;
  for (const std::string word : {"governor", "turbo"}) {
    const auto found = environment.find("cpu_" + word);
    if (found == environment.end()) continue;
    policy += (policy.empty() ? "" : ", ") + word + " " + found->second;
  }
  return policy;
}

Strings processor_environment() {
  Strings result = processor_pace();
  const std::string info = read_system_file("/proc/cpuinfo").value_or("");
  put(result, "cpu_microcode", field_of(info, "microcode", ':'));
  put(result, "cpu_stepping", field_of(info, "stepping", ':'));
  result["cpu_threads_of_machine"] = std::to_string(std::thread::hardware_concurrency());
  put_file(result, "cpu_governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  put(result, "cpu_turbo", turbo());
  put_file(result, "cpu_smt", "/sys/devices/system/cpu/smt/control");
  put_file(result, "cgroup_cpu_max", "/sys/fs/cgroup/cpu.max");
  put_file(result, "cgroup_memory_max", "/sys/fs/cgroup/memory.max");
  put_file(result, "transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled");
  put_file(result, "load_average", "/proc/loadavg");
  if (const auto kib = memory_kib()) result["memory_bytes"] = std::to_string(*kib * 1024);
  utsname name{};
  if (uname(&name) == 0) {
    result["kernel"] = std::string(name.sysname) + " " + name.release + " " + name.machine;
  }
  result["libc"] = std::string("glibc ") + gnu_get_libc_version();
  const std::string release = read_system_file("/etc/os-release").value_or("");
  if (auto pretty = field_of(release, "PRETTY_NAME", '=')) {
    pretty->erase(std::remove(pretty->begin(), pretty->end(), '"'), pretty->end());
    result["os"] = *pretty;
  }
  return result;
}

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

/// The number that `text` begins with; empty for "max".
std::optional<int64_t> first_number_in(const std::optional<std::string>& text) {
  int64_t number = 0;
  if (!text) return std::nullopt;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

std::string text_in(const fs::path& file) {
  return read_system_file(file.string()).value_or("");
}

/// Sums all processors; empty where none has a count.
std::optional<int64_t> thermal_throttles(const fs::path& root) {
  std::optional<int64_t> sum;
  std::error_code error;
  for (fs::directory_iterator at(root / kProcessors, error), end; !error && at != end;
       at.increment(error)) {
    const fs::path file = at->path() / "thermal_throttle" / "core_throttle_count";
    if (const auto count = first_number_in(read_system_file(file.string()))) {
      sum = sum.value_or(0) + *count;
    }
  }
  return sum;
}

/// Reads the control group that a container sees as the root, of version 2 or 1.
std::optional<int64_t> quota_throttles(const fs::path& root) {
  for (const char* file : {"sys/fs/cgroup/cpu.stat", "sys/fs/cgroup/cpu/cpu.stat"}) {
    if (auto count = first_number_in(field_of(text_in(root / file), "nr_throttled", ' ')))
      return count;
  }
  return std::nullopt;
}

/// The eighth figure of the line "cpu ", in ticks: time that a virtual machine wanted and did not
/// get.
std::optional<std::string> steal_s(const fs::path& root) {
  constexpr size_t kSteal = 8;
  const std::string stat = text_in(root / "proc/stat");
  const auto words = split_words(std::string_view(stat).substr(0, stat.find('\n')));
  if (words.size() <= kSteal || words.front() != "cpu") return std::nullopt;
  const auto ticks = first_number_in(words[kSteal]);
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
    const std::string value = text_in(root / file);
    if (!value.empty()) result[key] = value;
  }
  put(result, "cpu_clock_mhz", field_of(text_in(root / "proc/cpuinfo"), "cpu MHz", ':'));
  put(result, "cpu_thermal_throttles", thermal_throttles(root));
  put(result, "cpu_quota_throttles", quota_throttles(root));
  put(result, "cpu_steal_s", steal_s(root));
  put(result, "cpus_allowed",
      field_of(text_in(root / "proc/self/status"), "Cpus_allowed_list", ':'));
  if (const auto kib =
          first_number_in(field_of(text_in(root / "proc/meminfo"), "SwapTotal", ':'))) {
    result["swap_bytes"] = std::to_string(*kib * 1024);
  }
  return result;
}

namespace {

std::optional<int64_t> number_in_file(const fs::path& path) {
  return first_number_in(read_system_file(path.string()));
}

/// "MemTotal:  16384 kB", in bytes.
std::optional<int64_t> kib_field(const fs::path& path, std::string_view key) {
  const auto text = read_system_file(path.string());
  if (!text) return std::nullopt;
  const auto kib = first_number_in(field_of(*text, key, ':'));
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

std::optional<int64_t> least(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

/// The place where the kernel shows a hierarchy of groups, and the group of this process in it.
struct Hierarchy {
  fs::path mount;
  fs::path group;  ///< path below the mount; empty: its root
  bool unified = false;
};

/// Reads a line "ID:CONTROLLERS:/GROUP" of /proc/self/cgroup, without controllers in version 2.
std::optional<Hierarchy> hierarchy_of(std::string_view line, const fs::path& root) {
  const size_t first = line.find(':');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = line.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view controllers = line.substr(first + 1, second - first - 1);
  const fs::path group = fs::path(line.substr(second + 1)).relative_path();
  const fs::path mounts = root / "sys/fs/cgroup";
  if (controllers.empty()) return Hierarchy{mounts, group, /*unified=*/true};
  const auto names = split_at(controllers, ',');
  if (std::find(names.begin(), names.end(), "memory") == names.end()) return std::nullopt;
  return Hierarchy{mounts / "memory", group, /*unified=*/false};
}

std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found;
  const std::string text =
      read_system_file((root / "proc/self/cgroup").string()).value_or(std::string{});
  for (const std::string& line : split_at(text, '\n')) {
    if (const auto one = hierarchy_of(line, root)) found.push_back(*one);
  }
  return found;
}

std::optional<int64_t> limit_of_unified(const fs::path& group, int64_t machine_swap) {
  const auto memory = number_in_file(group / "memory.max");
  if (!memory) return std::nullopt;
  const auto swap = number_in_file(group / "memory.swap.max");
  return *memory + std::min(swap.value_or(machine_swap), machine_swap);
}

/// The limit of a group of version 1. Without one the kernel shows the largest multiple of a page:
/// more than any machine has.
std::optional<int64_t> limit_of_version_1(const fs::path& group, int64_t machine_swap) {
  const auto memory = number_in_file(group / "memory.limit_in_bytes");
  if (!memory) return std::nullopt;
  const int64_t with_swap = *memory > INT64_MAX - machine_swap ? *memory : *memory + machine_swap;
  return least(with_swap, number_in_file(group / "memory.memsw.limit_in_bytes"));
}

/// A container may see its own group as the root, so groups that are not there are passed over.
std::optional<int64_t> limit_of(const Hierarchy& hierarchy, int64_t machine_swap) {
  std::optional<int64_t> limit;
  for (fs::path group = hierarchy.group;; group = group.parent_path()) {
    const fs::path folder = hierarchy.mount / group;
    limit = least(limit, hierarchy.unified ? limit_of_unified(folder, machine_swap)
                                           : limit_of_version_1(folder, machine_swap));
    if (group.empty()) return limit;
  }
}

/// The group itself, or what a container sees in its place.
std::optional<int64_t> ended_in(const Hierarchy& hierarchy) {
  const char* const name = hierarchy.unified ? "memory.events" : "memory.oom_control";
  for (const fs::path& folder : {hierarchy.mount / hierarchy.group, hierarchy.mount}) {
    const auto text = read_system_file((folder / name).string());
    if (text) return first_number_in(field_of(*text, "oom_kill", ' '));
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> memory_limit_bytes(const fs::path& root) {
  const fs::path machine = root / "proc/meminfo";
  const int64_t swap = kib_field(machine, "SwapTotal").value_or(0);
  std::optional<int64_t> limit = kib_field(machine, "MemTotal");
  if (limit) *limit += swap;
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    limit = least(limit, limit_of(hierarchy, swap));
  }
  if (!limit) return std::nullopt;
  const int64_t held = kib_field(root / "proc/self/status", "RssAnon").value_or(0);
  return std::max<int64_t>(*limit - held, 0);
}

std::optional<int64_t> processes_ended_for_memory(const fs::path& root) {
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    if (const auto ended = ended_in(hierarchy)) return ended;
  }
  return std::nullopt;
}

}  // namespace noisemark::suite
