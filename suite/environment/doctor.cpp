#include "suite/environment/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "reports/base/fields.h"
#include "reports/base/json_writer.h"
#include "reports/base/sha256.h"
#include "suite/environment/graphics.h"
#include "suite/environment/surroundings.h"

namespace noisemark::reports::json {

template <>
inline constexpr std::array kNames<suite::Health>{
    std::pair{suite::Health::kFine, std::string_view{"fine"}},
    std::pair{suite::Health::kDisturbs, std::string_view{"disturbs"}},
    std::pair{suite::Health::kMissing, std::string_view{"missing"}}};

constexpr Document kDoctorDocument{
    "noisemark.doctor",
    "A list of what a result can or cannot name here, and of what disturbs timing.", false,
    "noisemark doctor --json"};

template <>
struct Fields<suite::Diagnosis> {
  using T = suite::Diagnosis;
  static constexpr About kAbout{"Diagnosis", ""};
  static constexpr std::tuple kAll{
      field("what", &T::what, "what was looked at"),
      field("health", &T::health,
            "fine; known, but it makes times or results harder to repeat; or not to be known here"),
      field("found", &T::found, "its value, or why there is none"),
      field("to_do", &T::to_do, "one sentence; empty where nothing can or need be done")};
};

}  // namespace noisemark::reports::json

namespace noisemark::suite {
namespace {

using reports::Strings;
using Diagnoses = std::vector<Diagnosis>;

constexpr double kIdleLoad = 0.5;  // processes that want a processor, per processor

std::optional<std::string> value_of(const Strings& strings, const std::string& key) {
  const auto found = strings.find(key);
  return found == strings.end() ? std::nullopt : std::optional(found->second);
}

Diagnosis source(const Machine& machine) {
  if (machine.git_commit.empty()) {
    return {"source", Health::kMissing, "the program was not built in a git checkout",
            "Build in a clone, so that results name the commit that they are of."};
  }
  const std::string commit = reports::shown_digits(machine.git_commit);
  if (!machine.git_dirty) return {"source", Health::kFine, commit, ""};
  return {"source", Health::kDisturbs,
          fmt::format("{} with changes {}", commit, reports::shown_digits(machine.git_diff_sha256)),
          "Commit, then build again: nobody else has these changes."};
}

Diagnosis build(const Machine& machine) {
  const std::string type = value_of(machine.build, "type").value_or("unknown");
  if (type == "Release") return {"build", Health::kFine, type, ""};
  return {"build", Health::kDisturbs, type, "Time with the preset `release`."};
}

Diagnosis container(const Machine& machine) {
  if (machine.container.empty()) return {"container", Health::kFine, "none", ""};
  const std::string kind = value_of(machine.container, "kind").value_or("unknown");
  if (const auto digest = value_of(machine.container, "digest")) {
    return {"container", Health::kFine, kind + " " + *digest, ""};
  }
  return {"container", Health::kMissing, kind + "; the digest of its image is not known",
          "Start it with NOISEMARK_IMAGE_DIGEST in its environment; a container cannot ask for its "
          "own."};
}

std::string why_no_frequency(const Surroundings& around) {
  if (around.frequency_driver) return "Linux does not show it";
  return around.hypervisor ? "a virtual machine: its host decides and does not show it"
                           : "Linux has no frequency driver for this processor";
}

std::string unknown_clock_advice(const Surroundings& around) {
  return around.hypervisor
             ? "Compare builds by rounds in turns, not by runs of different hours."
             : "Load the frequency driver (intel_pstate, amd-pstate or acpi-cpufreq).";
}

Diagnosis governor(const Machine& machine, const Surroundings& around) {
  const auto value = value_of(machine.environment, "cpu_governor");
  if (!value) {
    return {"CPU governor", Health::kMissing, why_no_frequency(around),
            unknown_clock_advice(around)};
  }
  if (*value == "performance") return {"CPU governor", Health::kFine, *value, ""};
  return {"CPU governor", Health::kDisturbs, *value,
          "`cpupower frequency-set --governor performance`, as root."};
}

Diagnosis turbo(const Machine& machine, const Surroundings& around) {
  const auto value = value_of(machine.environment, "cpu_turbo");
  if (!value) return {"CPU turbo", Health::kMissing, why_no_frequency(around), ""};
  if (*value == "off") return {"CPU turbo", Health::kFine, *value, ""};
  return {"CPU turbo", Health::kDisturbs, *value,
          "Switch it off for steady clocks: 1 into intel_pstate/no_turbo, or 0 into cpufreq/boost, "
          "below /sys/devices/system/cpu, as root."};
}

/// Returns whether the clock is held at one value, where no governor says it.
Diagnosis frequency(const Machine& machine, const Surroundings& around) {
  const char* what = "CPU clock limits";
  const auto least = value_of(machine.environment, "cpu_frequency_min_khz");
  const auto most = value_of(machine.environment, "cpu_frequency_max_khz");
  if (!least || !most) return {what, Health::kMissing, why_no_frequency(around), ""};
  const std::string found = fmt::format("{} to {} kHz", *least, *most);
  return {what, Health::kFine, *least == *most ? "locked at " + *most + " kHz" : found, ""};
}

Diagnosis throttles(const Machine& machine, const Surroundings& around) {
  const char* what = "CPU slowed down by heat";
  const auto count = value_of(machine.environment, "cpu_thermal_throttles");
  if (!count) {
    return {what, Health::kMissing,
            around.hypervisor ? "a virtual machine: its host does not show it"
                              : "Linux does not count it for this processor",
            ""};
  }
  if (*count == "0") return {what, Health::kFine, "never since the boot", ""};
  return {what, Health::kDisturbs, *count + " times since the boot",
          "See to its cooling; a result says whether it happened while it ran."};
}

Diagnosis processor_energy_known(const Surroundings& around) {
  const char* what = "CPU energy";
  if (around.energy_missing_reason.empty()) return {what, Health::kFine, "counted", ""};
  if (around.hypervisor) {
    return {what, Health::kMissing, "a virtual machine: its host does not show it", ""};
  }
  return {what, Health::kMissing, around.energy_missing_reason,
          around.root ? "" : "Run as root, or let this user read /sys/class/powercap/*/energy_uj."};
}

Diagnosis processor_share(const Machine& machine) {
  const auto value = value_of(machine.environment, "cgroup_cpu_max");
  if (!value) return {"CPU share", Health::kFine, "no limit is known", ""};
  if (value->starts_with("max")) return {"CPU share", Health::kFine, "not limited", ""};
  return {"CPU share", Health::kDisturbs,
          fmt::format("limited to {} (microseconds of processor time, per microseconds)", *value),
          "Give whole processors (cpuset) rather than a share of time: a share stops all threads "
          "when it is used up."};
}

Diagnosis load(const Surroundings& around) {
  const std::string found = fmt::format("{:.2f} on {} processors", around.load, around.processors);
  const bool busy = around.load > kIdleLoad * around.processors;
  return {"load", busy ? Health::kDisturbs : Health::kFine, found,
          busy ? "Wait until other programs are done." : ""};
}

/// Says why nothing can be known of a GPU; empty where something can.
std::optional<Diagnosis> no_gpu(const Machine& machine, const Surroundings& around) {
  if (machine.hardware.contains("gpu_model")) return std::nullopt;
  const MissingGpu missing = missing_gpu(around);
  return Diagnosis{"GPU", Health::kMissing, "not available: " + missing.why, missing.to_do};
}

void add_gpu_value(const Strings& strings, const std::string& key, const std::string& what,
                   const Surroundings& around, Diagnoses& all) {
  if (const auto value = value_of(strings, key)) {
    all.push_back({what, Health::kFine, *value, ""});
    return;
  }
  all.push_back({what, Health::kMissing,
                 around.nvml_library ? "the driver does not say it for this GPU"
                                     : "libnvidia-ml.so.1 cannot be loaded",
                 around.nvml_library ? "" : "Install the driver's management library."});
}

/// Names what holds the clocks down beyond being idle.
Diagnosis gpu_reasons(const std::string& reasons) {
  const bool calm = reasons == "none" || reasons == "idle";
  return {"GPU clocks held down by", calm ? Health::kFine : Health::kDisturbs, reasons,
          calm ? "" : "See to cooling and to the power limit (`nvidia-smi -q -d PERFORMANCE`)."};
}

/// Persistence mode: without it the driver is loaded anew for the first program, and forgets the
/// clocks that were set.
Diagnosis gpu_persistence(const std::string& state) {
  if (state == "on") return {"GPU persistence", Health::kFine, state, ""};
  return {"GPU persistence", Health::kDisturbs, state, "`nvidia-smi -pm 1`, as root."};
}

Diagnosis gpu_neighbours(const std::string& count) {
  if (is_count_of_container(count)) {
    return {"other processes on the GPU", Health::kMissing, count,
            "Look at `nvidia-smi` outside: a driver may show a container its own processes only, "
            "and numbers this one otherwise."};
  }
  if (count == "0") return {"other processes on the GPU", Health::kFine, "none", ""};
  return {"other processes on the GPU", Health::kDisturbs, count,
          "Wait for them (`nvidia-smi`), or take another GPU."};
}

/// Nothing can be read of it, so it is missing on every machine.
Diagnosis gpu_clock_lock() {
  return {"GPU clock lock", Health::kMissing,
          "no driver tells whether `nvidia-smi -lgc` holds the clock",
          "A result holds the clock before and after training; `nvidia-smi -lgc N,N`, as root, "
          "locks it."};
}

/// Tells who may compute on the GPU beside this program.
Diagnosis gpu_compute_mode(const std::string& mode) {
  const char* what = "GPU compute mode";
  if (mode == "default") return {what, Health::kFine, mode, ""};
  if (mode == "prohibited") {
    return {what, Health::kMissing, mode, "`nvidia-smi -c DEFAULT`, as root: nothing can compute."};
  }
  return {what, Health::kDisturbs, mode,
          "One program at a time: a second one cannot start (CUDA calls the GPU busy or "
          "unavailable), so close others, or `nvidia-smi -c DEFAULT`, as root."};
}

/// Diagnoses NVML's GPM, which needs no permission for profilers.
Diagnosis gpu_columns(const std::string& words) {
  const char* what = "GPU utilization columns (GPM)";
  if (words == kReachable) return {what, Health::kFine, words, ""};
  return {what, Health::kMissing, words,
          "Results have busy time from kernels, clocks and power, and say what is missing."};
}

/// Diagnoses CUPTI's PM sampling, which was tried.
Diagnosis gpu_sampling(const Surroundings& around) {
  const char* what = "GPU sampled columns (CUPTI PM sampling)";
  if (!around.no_sampling) return {what, Health::kMissing, "CUPTI was not asked", ""};
  if (around.no_sampling->empty()) return {what, Health::kFine, kReachable, ""};
  return {what, Health::kMissing, *around.no_sampling,
          "Results have NVML's columns where there are some, and say why these are missing."};
}

Diagnosis gpu_counters(const Surroundings& around) {
  const std::string what = "GPU counters";
  if (!around.counters_for_root_only) {
    return {what, Health::kMissing, "the driver does not say who may read them", ""};
  }
  if (!*around.counters_for_root_only || around.root) return {what, Health::kFine, "allowed", ""};
  return {what, Health::kMissing, "only root may read them",
          "Set NVreg_RestrictProfilingToAdminUsers=0 for the driver's kernel module, or run as "
          "root."};
}

void add_gpu(const Machine& machine, const Surroundings& around, Diagnoses& all) {
  if (const auto none = no_gpu(machine, around)) {
    all.push_back(*none);
    return;
  }
  add_gpu_value(machine.hardware, "gpu_model", "GPU", around, all);
  add_gpu_value(machine.software, "cuda_driver", "GPU driver", around, all);
  const std::pair<const char*, const char*> figures[] = {
      {"gpu_sm_clock_mhz", "GPU clock (MHz)"},
      {"gpu_sm_clock_applications_mhz", "GPU clock set for applications (MHz)"},
      {"gpu_memory_clock_applications_mhz", "GPU memory clock set for applications (MHz)"},
      {"gpu_power_mw", "GPU power (mW)"},
      {"gpu_power_limit_mw", "GPU power limit (mW)"},
      {"gpu_temperature_c", "GPU temperature (degrees Celsius)"},
      {"gpu_energy_mj", "GPU energy (mJ)"}};
  for (const auto& [key, what] : figures) {
    add_gpu_value(machine.environment, key, what, around, all);
  }
  add_gpu_value(machine.hardware, "gpu_ecc", "GPU ECC", around, all);
  add_gpu_value(machine.hardware, "gpu_mig", "GPU MIG", around, all);
  if (const auto state = value_of(machine.environment, "gpu_persistence")) {
    all.push_back(gpu_persistence(*state));
  } else {
    add_gpu_value(machine.environment, "gpu_persistence", "GPU persistence", around, all);
  }
  if (const auto reasons = value_of(machine.environment, "gpu_clock_reasons")) {
    all.push_back(gpu_reasons(*reasons));
  } else {
    add_gpu_value(machine.environment, "gpu_clock_reasons", "GPU clocks held down by", around, all);
  }
  if (const auto count = value_of(machine.environment, "gpu_other_processes")) {
    all.push_back(gpu_neighbours(*count));
  } else {
    add_gpu_value(machine.environment, "gpu_other_processes", "other processes on the GPU", around,
                  all);
  }
  all.push_back(gpu_clock_lock());
  if (const auto mode = value_of(machine.environment, "gpu_compute_mode")) {
    all.push_back(gpu_compute_mode(*mode));
  } else {
    add_gpu_value(machine.environment, "gpu_compute_mode", "GPU compute mode", around, all);
  }
  if (const auto words = value_of(machine.environment, kGpuColumns)) {
    all.push_back(gpu_columns(*words));
  } else {
    add_gpu_value(machine.environment, kGpuColumns, "GPU utilization columns (GPM)", around, all);
  }
  all.push_back(gpu_counters(around));
  all.push_back(gpu_sampling(around));
}

Diagnosis gnuplot(const Surroundings& around) {
  if (around.gnuplot) return {"gnuplot", Health::kFine, "installed", ""};
  return {"gnuplot", Health::kMissing, "not on the PATH",
          "Install gnuplot-nox; reports have no plots without it."};
}

Diagnosis packages(const Surroundings& around) {
  if (around.package_list) return {"versions of packages", Health::kFine, "known", ""};
  return {"versions of packages", Health::kMissing, "no Debian packages, or an unreadable list",
          "Results name LibTorch and the compiler still; use the container for the rest."};
}

}  // namespace

Diagnoses diagnose(const Machine& machine, const Surroundings& around) {
  Diagnoses all = {source(machine),
                   build(machine),
                   container(machine),
                   governor(machine, around),
                   turbo(machine, around),
                   frequency(machine, around),
                   throttles(machine, around),
                   processor_energy_known(around),
                   processor_share(machine),
                   load(around)};
  add_gpu(machine, around, all);
  all.push_back(gnuplot(around));
  all.push_back(packages(around));
  return all;
}

std::string doctor_text(const Diagnoses& diagnoses) {
  std::string text;
  for (const Diagnosis& one : diagnoses) {
    text += fmt::format("{:<10}{}: {}\n", reports::json::name_of(one.health), one.what, one.found);
    if (!one.to_do.empty()) text += fmt::format("{:<10}{}\n", "", one.to_do);
  }
  const auto count = [&](Health health) {
    return std::count_if(diagnoses.begin(), diagnoses.end(),
                         [&](const Diagnosis& one) { return one.health == health; });
  };
  return text + fmt::format("{} fine, {} may disturb, {} missing\n", count(Health::kFine),
                            count(Health::kDisturbs), count(Health::kMissing));
}

std::string doctor_json(const Diagnoses& diagnoses) {
  return reports::json::printed(diagnoses);
}

reports::json::Published doctor_document() {
  return {reports::json::kDoctorDocument, reports::json::shape_of<Diagnoses>()};
}

}  // namespace noisemark::suite
