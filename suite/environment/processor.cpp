#include "suite/environment/processor.h"

#include <ATen/Version.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <thread>

#include "suite/environment/processor_pace.h"
#include "suite/environment/system_file.h"

namespace noisemark::suite {
namespace {

using reports::Strings;

struct IsaRule {
  std::string_view name;
  std::vector<std::string_view> flags;  ///< beyond those of the rules below it
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

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
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
  const std::string limit = lower(cap);
  const auto& rules = isa_rules();
  auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const IsaRule& r) { return r.name == limit; });
  if (rule == rules.end()) rule = rules.begin();
  for (; rule != rules.end(); ++rule) {
    if (std::all_of(rule->flags.begin(), rule->flags.end(), has)) return std::string(rule->name);
  }
  return "";
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

}  // namespace noisemark::suite
