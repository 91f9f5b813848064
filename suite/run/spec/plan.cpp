#include "suite/run/spec/plan.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "memopt/modes/mode_grammar.h"
#include "reports/base/error.h"
#include "reports/base/streams.h"
#include "reports/seeds/judge.h"
#include "suite/config/catalogue.h"
#include "suite/environment/environment.h"
#include "suite/environment/surroundings.h"

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
std::vector<ModeSpec> resolve_modes(const std::string& where,
                                    const std::vector<std::string>& spellings) {
  std::vector<ModeSpec> modes;
  std::vector<std::string> names;
  for (const std::string& spelling : spellings) {
    modes.push_back(as_bad_input(where, [&] { return resolve_mode(spelling); }));
    names.push_back(modes.back().name);
  }
  require_each_once(where, names);
  return modes;
}

/// More only wait for each other, and enough of them end the process. What LibTorch was told
/// otherwise (OMP_NUM_THREADS) holds all the same.
int64_t checked_threads(const std::optional<int64_t>& given, int64_t ranks) {
  const int64_t own = at::get_num_threads();
  if (!given) return std::max<int64_t>(1, own / ranks);
  const int64_t processors = std::thread::hardware_concurrency();
  if (processors > 0 && *given > std::max(own, processors)) {
    throw bad_input(
        "--threads", "", std::to_string(*given),
        "at most " + std::to_string(processors) + ", the logical processors of this machine");
  }
  return *given;
}

/// Returns the number of micro-batches that keeps stages busy for most of a step: at most four for
/// each rank.
int64_t usual_micro_batches(const RunSpec& spec) {
  int64_t most = std::min(4 * spec.ranks, spec.definition.train.batch);
  while (spec.definition.train.batch % most != 0) --most;
  return most;
}

RunSpec make_spec(const RunOptions& options, const Definition& definition, const ModeSpec& mode,
                  const std::string& baseline, at::Device device) {
  RunSpec spec;
  spec.definition = definition;
  spec.mode = mode;
  spec.baseline = as_bad_input("--baseline", [&] { return resolve_baseline(baseline); });
  const std::string& fixed = spec.baseline.execution.precision;
  if (!fixed.empty() && !options.precision.empty() && fixed != options.precision) {
    throw bad_input("--precision", "", options.precision,
                    "the baseline " + baseline + " fixes " + fixed);
  }
  std::string precision = options.precision.empty() ? fixed : options.precision;
  if (precision.empty()) precision = kPrecisions.front().name;
  spec.precision = parse_precision(precision, device);
  spec.device = device;
  spec.deterministic = options.deterministic;
  require_kernels(spec);
  spec.threads = checked_threads(options.threads, options.ranks);
  spec.ranks = options.ranks;
  if (options.reduce != "exact") spec.reduction = options.reduce;
  spec.shard_optimizer = options.shard_optimizer;
  if (options.micro_batches && options.pipeline == "none") {
    throw bad_input("--micro-batches", "", std::to_string(*options.micro_batches),
                    "only with --pipeline");
  }
  if (options.pipeline != "none") {
    spec.pipeline = options.pipeline;
    spec.micro_batches = options.micro_batches.value_or(usual_micro_batches(spec));
  }
  return spec;
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

}  // namespace

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
    const std::vector<ModeSpec> own_modes =
        resolve_modes(entry.id + ": benchmark.modes", memopt::modes_meant_by(definition.modes));
    std::vector<ModeSpec> modes = resolve_modes("--mode", options.modes);
    if (modes.empty() && is_suite) modes = own_modes;
    if (modes.empty()) modes = {ModeSpec{}};
    const int64_t seeds = std::max(options.seeds, entry.seeds);
    for (uint64_t seed = first; seed < first + static_cast<uint64_t>(seeds); ++seed) {
      for (const std::string& baseline : baselines) {
        for (const ModeSpec& mode : modes) {
          runs.push_back({make_spec(options, definition, mode, baseline, device), seed,
                          definition.id + "@" + definition.scale, entry.id, seeds, entry.seeds > 1,
                          seed == first});
        }
      }
    }
  }
  return runs;
}

Shard parse_shard(const std::string& text) {
  const auto refuse = [&] {
    return bad_input("--shard", "", text, "K/N, two whole numbers from 1 on, K at most N");
  };
  Shard shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.number);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '/') throw refuse();
  const auto second = std::from_chars(first.ptr + 1, end, shard.of);
  if (second.ec != std::errc{} || second.ptr != end) throw refuse();
  if (shard.number < 1 || shard.number > shard.of) throw refuse();
  return shard;
}

std::vector<PlannedRun> part_of(const std::vector<PlannedRun>& plans, const Shard& shard) {
  std::vector<std::pair<std::string, uint64_t>> groups;
  std::vector<PlannedRun> part;
  for (const PlannedRun& plan : plans) {
    const std::pair group(plan.id, plan.seed);
    auto found = std::find(groups.begin(), groups.end(), group);
    if (found == groups.end()) found = groups.insert(groups.end(), group);
    if ((found - groups.begin()) % shard.of == shard.number - 1) part.push_back(plan);
  }
  const auto most = static_cast<int64_t>(groups.size());
  if (shard.of <= most) return part;
  throw bad_input("--shard", "", fmt::format("{}/{}", shard.number, shard.of),
                  fmt::format("at most {} parts, one for each benchmark and seed", most));
}

void require_one_way_with_what_is_there(const RunOptions& options) {
  if (options.resume && options.out.empty()) {
    throw bad_input("--resume", "needs --out", "", "the folder of the run to continue");
  }
  if (options.resume && options.force) {
    throw bad_input("--force", "given with --resume", "",
                    "one of them: replace the run that is there, or continue it");
  }
}

void tell_of_unused_gpu(const RunOptions& options, c10::Device device) {
  if (!options.device.empty() || !device.is_cpu()) return;
  const std::string words = unused_gpu(look_around());
  if (!words.empty()) reports::say_on_stderr(words);
}

}  // namespace noisemark::suite
