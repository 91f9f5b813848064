#include "suite/environment/environment.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/fields.h"
#include "reports/base/json_writer.h"
#include "reports/base/sha256.h"
#include "reports/result/environment_changes.h"
#include "suite/environment/graphics.h"
#include "suite/environment/installation.h"
#include "suite/environment/processor.h"
#include "suite/environment/surroundings.h"
#include "suite/environment/system.h"

namespace noisemark::suite {
namespace {

using reports::Strings;

void add(Strings& target, const Strings& more) {
  target.insert(more.begin(), more.end());
}

// "13.0" out of 13000, as CUDA numbers its versions.
std::string cuda_version(long number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

// "9.15.1" out of 91501, as cuDNN 9 numbers its versions.
std::string cudnn_version(long number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

// The name and version at the start of a sentence such as "Intel(R) MKL-DNN v3.7.1 (Git Hash ...)".
std::string first_clause(const std::string& sentence) {
  return sentence.substr(0, sentence.find(" ("));
}

Strings libraries() {
  Strings result = libtorch_identity();
  result["libtorch"] = TORCH_VERSION;
  result["onednn"] = at::get_mkldnn_version();
  result["mkl"] = at::get_mkl_version();
  result["openmp"] = first_clause(at::get_openmp_version());
  return result;
}

Strings cuda_libraries() {
  Strings result;
  const auto& hooks = at::detail::getCUDAHooks();
  if (hooks.hasCUDART()) result["cuda_runtime"] = cuda_version(hooks.versionCUDART());
  if (hooks.hasCuDNN()) result["cudnn"] = cudnn_version(hooks.versionRuntimeCuDNN());
  return result;
}

std::string on_off(bool value) {
  return value ? "on" : "off";
}

/// Tells how LibTorch may round float32: "tf32", "bf16", "ieee" or, where nothing is set, "none".
Strings float32_precisions() {
  constexpr std::pair<const char*, at::Float32Op> kOperations[] = {
      {"conv", at::Float32Op::CONV}, {"matmul", at::Float32Op::MATMUL}};
  constexpr std::pair<const char*, at::Float32Backend> kLibraries[] = {
      {"cuda", at::Float32Backend::CUDA}, {"onednn", at::Float32Backend::MKLDNN}};
  Strings result;
  for (const auto& [operation, op] : kOperations) {
    for (const auto& [library, backend] : kLibraries) {
      result[fmt::format("torch_float32_{}_{}", operation, library)] =
          at::precision2str(at::globalContext().float32Precision(backend, op));
    }
  }
  return result;
}

/// The settings by which LibTorch chooses algorithms in this process; a run has set them before the
/// machine is described.
Strings torch_flags() {
  const at::Context& context = at::globalContext();
  return {{"torch_deterministic_algorithms", on_off(context.deterministicAlgorithms())},
          {"torch_deterministic_cudnn", on_off(context.deterministicCuDNN())},
          {"torch_cudnn_benchmark", on_off(context.benchmarkCuDNN())},
          {"torch_threads", std::to_string(at::get_num_threads())}};
}

Strings build_strings(const BuildInfo& info) {
  Strings result{{"version", std::string(info.version)},
                 {"type", std::string(info.type)},
                 {"compiler", std::string(info.compiler)},
                 {"flags", std::string(info.flags)}};
  if (!info.cuda_compiler.empty()) result["cuda_compiler"] = info.cuda_compiler;
  return result;
}

Strings source_of(const Machine& machine) {
  Strings source{{"binary_sha256", machine.binary_sha256}};
  if (!machine.git_commit.empty()) {
    source["git_commit"] = machine.git_commit;
    source["git_dirty"] = machine.git_dirty ? "true" : "false";
  }
  if (!machine.git_diff_sha256.empty()) source["git_diff_sha256"] = machine.git_diff_sha256;
  return source;
}

/// Treats "gpu" apart, whose letters are nearest to "cpu".
std::string accepted_devices(std::string_view spelling) {
  const std::array<std::string, 3> devices{"cpu", "cuda", "cuda:N"};
  const bool general = spelling.starts_with("gpu");
  const std::string meant =
      general ? "cuda" + std::string(spelling.substr(3)) : std::string(spelling);
  return reports::accepted_names(meant, devices);
}

}  // namespace

int64_t usable_gpus() {
  return at::hasCUDA() ? at::detail::getCUDAHooks().getNumGPUs() : 0;
}

c10::Device default_device() {
  return usable_gpus() > 0 ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
}

bool is_required(std::string_view part) {
  constexpr std::array<std::string_view, 4> kParts{"cuda", "peers", "pictures", "browser"};
  const char* value = std::getenv("NOISEMARK_REQUIRE");
  const std::string required = value == nullptr ? "" : value;
  bool found = false;
  for (const std::string& word : split_at(required, ',')) {
    if (std::find(kParts.begin(), kParts.end(), word) == kParts.end()) {
      throw bad_input("NOISEMARK_REQUIRE", "", required,
                      fmt::format("{} or several with commas", fmt::join(kParts, ", ")));
    }
    found = found || word == part;
  }
  return found;
}

bool requires_cuda() {
  return is_required("cuda");
}

c10::Device parse_device(const std::string& spelling) {
  if (spelling.empty() && !requires_cuda()) return default_device();
  try {
    const c10::Device device(spelling.empty() ? "cuda" : spelling);
    if (device.is_cuda() && !default_device().is_cuda()) {
      throw Error(ExitCode::kCannotRunHere,
                  "--device: " + device.str() + ": no usable CUDA device here: " +
                      missing_gpu(look_around()).why + " (see `noisemark doctor`)");
    }
    if (device.is_cuda() && device.index() >= usable_gpus()) {
      throw bad_input("--device", "", spelling, "a device that is here");
    }
    if (device.is_cpu() || device.is_cuda()) {
      return device.is_cuda() && !device.has_index() ? c10::Device(c10::kCUDA, 0) : device;
    }
  } catch (const c10::Error&) {
    // Falls through to the message that names what is accepted.
  }
  throw bad_input("--device", "", spelling, accepted_devices(spelling));
}

Machine capture_machine(const c10::Device& device) {
  Machine machine;
  machine.hardware = processor_identity();
  machine.software = libraries();
  machine.environment = processor_environment();
  if (device.is_cuda()) {
    const Graphics gpu = describe_gpu(device.has_index() ? device.index() : 0);
    add(machine.hardware, gpu.hardware);
    add(machine.software, gpu.software);
    add(machine.software, cuda_libraries());
    add(machine.environment, gpu.environment);
  }
  add(machine.environment, torch_flags());
  add(machine.environment, float32_precisions());
  add(machine.environment, installed_packages());
  add(machine.environment, relevant_variables());
  machine.container = describe_container();
  const BuildInfo& info = build_info();
  machine.software["compiler"] = info.compiler;
  machine.build = build_strings(info);
  machine.git_commit = info.git_commit;
  machine.git_dirty = info.git_dirty;
  machine.git_diff_sha256 = info.git_diff_sha256;
  machine.binary_sha256 = reports::sha256_of_file("/proc/self/exe");
  return machine;
}

void describe_machine(const c10::Device& device, reports::Result& result) {
  const Machine machine = capture_machine(device);
  result.identity.hardware = machine.hardware;
  result.identity.software = machine.software;
  result.environment = machine.environment;
  reports::Provenance& provenance = result.provenance;
  provenance.git_commit = machine.git_commit;
  provenance.git_dirty = machine.git_dirty;
  provenance.git_diff_sha256 = machine.git_diff_sha256;
  provenance.binary_sha256 = machine.binary_sha256;
  provenance.build = machine.build;
  provenance.container = machine.container;
}

}  // namespace noisemark::suite

namespace noisemark::reports::json {

constexpr Document kMachineDocument{"noisemark.env",
                                    "The hardware and software that a result would name.", false,
                                    "noisemark env --json"};

/// The sections are in the order in which people read them.
template <>
struct Fields<suite::Machine> {
  using T = suite::Machine;
  static constexpr About kAbout{"Machine", ""};
  static constexpr std::tuple kAll{
      field("hardware", &T::hardware, "must agree before results are compared"),
      field("software", &T::software, "likewise"),
      computed("source", &suite::source_of, "digest of this program, and commit of its sources"),
      field("build", &T::build, "version, compiler and flags of this program"),
      field("container", &T::container, "empty outside of one"),
      field("environment", &T::environment, "the rest: kernel, governor, packages, variables")};
};

}  // namespace noisemark::reports::json

namespace noisemark::suite {

std::string machine_text(const Machine& machine) {
  std::string text;
  const nlohmann::ordered_json sections = reports::json::tree_of(machine);
  for (const auto& [title, strings] : sections.items()) {
    if (strings.empty()) continue;
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", title);
    for (const auto& [key, value] : strings.items()) {
      text += fmt::format("  {:<28} {}\n", key, value.get_ref<const std::string&>());
    }
  }
  return text;
}

std::string machine_json(const Machine& machine) {
  return reports::json::printed(machine);
}

reports::json::Published machine_document() {
  return {reports::json::kMachineDocument, reports::json::shape_of<Machine>()};
}

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
    const std::string after = reports::text_of(end, key, kUnknown);
    if (reports::text_of(before, key, kUnknown) == after) return;
    environment[std::string(reports::kAtTheEnd) + key] = after;
  };
  for (const std::string_view key : reports::kReadings) add(std::string(key));
  for (const char* key : kSettings) {
    add(key);
    if (!equal(key, reports::text_of(before, key, kUnknown), reports::text_of(end, key, kUnknown)))
      changed.emplace_back(key);
  }
  environment[std::string(reports::kChangedWhileItRan)] =
      changed.empty() ? "nothing" : fmt::format("{}", fmt::join(changed, ", "));
}

namespace {

using reports::EventMetadata;
using reports::EventValue;

constexpr const char* kCpuClock = "cpu_clock_mhz";
constexpr const char* kGpuNumbers[] = {"gpu_sm_clock_mhz", "gpu_memory_clock_mhz", "gpu_power_mw",
                                       "gpu_temperature_c"};
constexpr const char* kGpuReasons = "gpu_clock_reasons";

std::optional<double> decimal_of(const std::optional<std::string>& text) {
  double number = 0;
  if (!text) return std::nullopt;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool whole = error == std::errc{} && stop == text->data() + text->size();
  return whole ? std::optional(number) : std::nullopt;
}

void put_missing(EventMetadata& figures, const std::string& key, const std::string& why) {
  figures[key] = EventValue{};
  figures[key + "_missing"] = why;
}

/// Averages the lines "cpu MHz : 2499.998".
std::optional<double> mean_clock(std::string_view processors) {
  double sum = 0;
  int count = 0;
  for (const std::string& line : split_at(processors, '\n')) {
    if (const auto clock = decimal_of(field_of(line, "cpu MHz", ':'))) {
      sum += *clock;
      ++count;
    }
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

bool is_virtual(std::string_view processors) {
  const auto flags = split_words(field_of(processors, "flags", ':').value_or(""));
  return std::find(flags.begin(), flags.end(), "hypervisor") != flags.end();
}

void put_processor(EventMetadata& figures, const std::filesystem::path& root) {
  const std::string processors = read_system_file((root / "proc/cpuinfo").string()).value_or("");
  if (is_virtual(processors)) {
    return put_missing(figures, kCpuClock, "a virtual machine: its host does not show it");
  }
  const auto clock = mean_clock(processors);
  if (!clock) return put_missing(figures, kCpuClock, "Linux does not show it");
  figures[kCpuClock] = *clock;
}

void put_gpu(EventMetadata& figures, int ordinal) {
  constexpr const char* kSilent = "the driver does not say it for this GPU";
  const reports::Strings found = describe_gpu(ordinal).environment;
  for (const char* key : kGpuNumbers) {
    const auto text = found.find(key);
    const auto number = text == found.end() ? std::nullopt : decimal_of(text->second);
    if (number) {
      figures[key] = *number;
    } else {
      put_missing(figures, key, kSilent);
    }
  }
  const auto reasons = found.find(kGpuReasons);
  if (reasons == found.end()) return put_missing(figures, kGpuReasons, kSilent);
  figures[kGpuReasons] = reasons->second;
}

}  // namespace

EventMetadata machine_figures(const c10::Device& device, const std::filesystem::path& root) {
  EventMetadata figures;
  put_processor(figures, root);
  if (device.is_cuda()) put_gpu(figures, device.has_index() ? device.index() : 0);
  return figures;
}

}  // namespace noisemark::suite
