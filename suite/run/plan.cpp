#include "suite/run/plan.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <thread>

#include "baselines/norm_device.h"
#include "memopt/mode.h"
#include "reports/nearest.h"
#include "reports/quality/judge.h"
#include "suite/config/catalogue.h"
#include "suite/environment/environment.h"

namespace noisemark::suite {
namespace {

/// Names of other folders come back as std::invalid_argument, because those folders know no exit
/// codes.
template <typename Function>
auto as_bad_input(const std::string& where, const Function& function) {
  try {
    return function();
  } catch (const std::invalid_argument& error) {
    throw bad_input(where, "", error.what(), "");
  }
}

void require_each_once(const std::string& where, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) throw bad_input(where, name, "given twice", "each once");
  }
}

/// One size has many spellings, so that equal modes show in their names only.
std::vector<std::string> mode_names(const std::string& where,
                                    const std::vector<std::string>& spellings) {
  std::vector<std::string> names;
  for (const std::string& spelling : spellings) {
    names.push_back(as_bad_input(where, [&] { return memopt::make_mode(spelling)->name(); }));
  }
  require_each_once(where, names);
  return names;
}

/// More only wait for each other, and enough of them end the process. What LibTorch was told
/// otherwise (OMP_NUM_THREADS) holds all the same.
int64_t checked_threads(const std::optional<int64_t>& given) {
  const int64_t own = at::get_num_threads();
  if (!given) return own;
  const int64_t processors = std::thread::hardware_concurrency();
  if (processors > 0 && *given > std::max(own, processors)) {
    throw bad_input(
        "--threads", "", std::to_string(*given),
        "at most " + std::to_string(processors) + ", the logical processors of this machine");
  }
  return *given;
}

Variant make_variant(const RunOptions& options, const std::string& mode,
                     const std::string& baseline, at::Device device) {
  Variant variant;
  variant.mode = mode;
  const auto execution =
      as_bad_input("--baseline", [&] { return baselines::parse_baseline(baseline); });
  variant.baseline = baseline;
  if (!execution.precision.empty() && !options.precision.empty() &&
      execution.precision != options.precision) {
    throw bad_input("--precision", "", options.precision,
                    "the baseline " + baseline + " fixes " + execution.precision);
  }
  std::string precision = options.precision.empty() ? execution.precision : options.precision;
  if (precision.empty()) precision = "fp32";
  variant.precision = parse_precision(precision, device);
  variant.device = device;
  variant.deterministic = options.deterministic;
  require_kernels(variant);
  variant.threads = checked_threads(options.threads);
  return variant;
}

constexpr int64_t kMostSeeds = 1000;

void require_few_seeds(int64_t seeds) {
  if (seeds >= 1 && seeds <= kMostSeeds) return;
  throw bad_input("--seeds", "", std::to_string(seeds), "1 to " + std::to_string(kMostSeeds));
}

void require_few_looks(std::optional<int64_t> looks) {
  if (!looks || (*looks >= 1 && *looks <= reports::kMostLooks)) return;
  throw bad_input("--looks", "", std::to_string(*looks),
                  "1 to " + std::to_string(reports::kMostLooks));
}

struct Entry {
  std::string id;
  std::string scale;
  int64_t seeds = 1;
};

std::vector<Entry> entries_of(const RunOptions& options, at::Device device) {
  const std::string scale = device.is_cuda() ? "gpu" : "cpu";
  std::vector<Entry> entries;
  if (const Suite* suite = find_suite(options.id)) {
    for (const SuiteEntry& entry : suite->entries) {
      entries.push_back({std::string(entry.benchmark), scale, entry.seeds});
    }
    return entries;
  }
  return {{options.id, scale}};
}

/// Of what only a GPU does, and a mode's steps that need the host.
void require_gpu(const Variant& variant, const baselines::Execution& execution) {
  if (!execution.cuda_graph && !execution.autotuned) return;
  if (!variant.device.is_cuda()) {
    throw bad_input("--baseline", "", variant.baseline + " on " + variant.device.str(),
                    "cuda-graph and autotuned take a CUDA device");
  }
  if (execution.autotuned && variant.deterministic) {
    throw bad_input("--baseline", "", variant.baseline + " with --deterministic",
                    "autotuned may choose another algorithm each time");
  }
  if (!execution.cuda_graph) return;
  const std::string why = memopt::why_host_is_needed(variant.mode);
  if (why.empty()) return;
  throw bad_input("--baseline", "", variant.baseline + " under mode " + variant.mode + ": " + why,
                  "cuda-graph takes modes whose steps need no host");
}

}  // namespace

void require_kernels(const Variant& variant) {
  const baselines::Execution execution = baselines::parse_baseline(variant.baseline);
  require_gpu(variant, execution);
  if (!execution.fused) return;
  const std::string& precision = variant.precision.name;
  const bool type = precision == "fp32" || precision == "tf32" || precision == "bf16";
  if (type && baselines::find_norm_device(variant.device) != nullptr) return;
  throw bad_input("--baseline", "",
                  variant.baseline + " in " + precision + " on " + variant.device.str(),
                  "fused takes the CPU or CUDA, fp32, tf32 or bf16");
}

void require_benchmark(const std::string& command, const std::string& id) {
  if (find_suite(id) == nullptr) return;
  throw bad_input(command, id, "a suite", "one benchmark, or a definition file");
}

std::vector<PlannedRun> plan_runs(const RunOptions& options) {
  const at::Device device = parse_device(options.device);
  const bool is_suite = find_suite(options.id) != nullptr;
  const std::vector<std::string> baselines =
      options.baselines.empty() ? std::vector<std::string>{"plain"} : options.baselines;
  require_each_once("--baseline", baselines);
  require_few_seeds(options.seeds);
  require_few_looks(options.looks);
  std::vector<PlannedRun> runs;
  for (const Entry& entry : entries_of(options, device)) {
    const Definition definition = load_definition(entry.id, entry.scale, options.sets);
    const uint64_t first = options.seed.value_or(definition.seed);
    const std::vector<std::string> own_modes =
        mode_names(entry.id + ": benchmark.modes", definition.modes);
    std::vector<std::string> modes = options.modes;
    if (modes.empty() && is_suite) modes = own_modes;
    if (modes.empty()) modes = {"none"};
    modes = mode_names("--mode", modes);
    const int64_t seeds = std::max(options.seeds, entry.seeds);
    for (uint64_t seed = first; seed < first + static_cast<uint64_t>(seeds); ++seed) {
      for (const std::string& baseline : baselines) {
        for (const std::string& mode : modes) {
          runs.push_back({definition, make_variant(options, mode, baseline, device), seed,
                          definition.id + "@" + definition.scale, entry.id, seeds, entry.seeds > 1,
                          seed == first});
        }
      }
    }
  }
  return runs;
}

}  // namespace noisemark::suite
