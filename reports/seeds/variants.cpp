#include "reports/seeds/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "reports/base/error.h"
#include "reports/render/report.h"
#include "reports/render/run_folder.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

/// Benchmarks that the suite in a folder judges; empty: all of the folder.
std::set<std::string> judged_in(const fs::path& folder) {
  if (!fs::is_directory(folder)) return {};
  const auto suite = suite_in(folder);
  if (!suite) return {};
  return {suite->judged.begin(), suite->judged.end()};
}

template <typename T>
void move_into(std::vector<T>& all, std::vector<T>& some) {
  std::move(some.begin(), some.end(), std::back_inserter(all));
}

/// Moves the runs that their suite does not judge over seeds out of `side`.
void leave_out(const std::set<std::string>& judged, Side& side, Side& by_steps) {
  std::set<std::string> benchmarks;
  const auto others = std::stable_partition(
      side.runs.begin(), side.runs.end(),
      [&](const NamedResult& run) { return judged.contains(benchmark_name(run.result.identity)); });
  for (auto run = others; run != side.runs.end(); ++run) {
    benchmarks.insert(benchmark_name(run->result.identity));
    by_steps.runs.push_back(std::move(*run));
  }
  side.runs.erase(others, side.runs.end());
  for (const std::string& benchmark : benchmarks) {
    side.left_out.push_back(benchmark + ": not there for its quality over seeds");
  }
  std::erase_if(side.lost, [&](const LostRun& run) {
    return std::none_of(judged.begin(), judged.end(), [&](const std::string& benchmark) {
      return run.name.find(benchmark + "/") != std::string::npos;
    });
  });
}

fs::path whole(const fs::path& path) {
  return fs::absolute(path).lexically_normal();
}

std::vector<std::string> sheets_of(const Side& side, const fs::path& page) {
  std::vector<std::string> sheets;
  for (const NamedResult& run : side.runs) {
    const fs::path sheet = fs::path(run.name) / "samples" / "sheet.png";
    std::error_code unknown;  // it is the same as none
    if (!fs::exists(sheet, unknown)) continue;
    sheets.push_back(whole(sheet).lexically_proximate(whole(page)).generic_string());
  }
  std::sort(sheets.begin(), sheets.end());
  return sheets;
}

}  // namespace

QualitySide read_quality_side(const std::vector<std::string>& paths, const fs::path& page) {
  QualitySide read;
  read.side.name = read_runs(paths).name;  // the name stands in what it refuses
  for (const std::string& path : paths) {
    Side side = read_side(path);
    const std::set<std::string> judged = judged_in(path);
    if (!judged.empty()) leave_out(judged, side, read.by_steps);
    move_into(read.side.runs, side.runs);
    move_into(read.side.lost, side.lost);
    move_into(read.side.left_out, side.left_out);
  }
  read.distances = read_distances(read.side);
  attach_distances(read.distances, read.side);
  const fs::path only = paths.size() == 1 ? paths.front() : ".";
  read.sheets = sheets_of(read.side, page.empty() ? only : page);
  return read;
}

namespace {

using Runs = std::vector<const NamedResult*>;

struct Variant {
  std::string mode;
  std::string baseline;
  std::string precision;
  std::string reduction = {};  ///< type that ranks rounded gradients to; empty: none

  auto operator<=>(const Variant&) const = default;
};

/// Variants of one workload.
using Workload = std::map<Variant, Runs>;

const Variant kPlain = {"none", "plain", "fp32"};

Variant variant_of(const Identity& id) {
  return {id.mode, id.baseline, id.precision, id.reduction};
}

uint64_t seed_of(const NamedResult& run) {
  return run.result.seeds.base;
}

void sort_single_seeds(Runs& runs) {
  sort_by_seed(runs);
  const auto twice = std::adjacent_find(
      runs.begin(), runs.end(),
      [](const NamedResult* a, const NamedResult* b) { return seed_of(*a) == seed_of(*b); });
  if (twice == runs.end()) return;
  const NamedResult& first = **twice;
  const NamedResult& second = **(twice + 1);
  const bool alike =
      first.result.identity.definition_sha256 == second.result.identity.definition_sha256;
  throw bad_input(second.name, "",
                  fmt::format("seed {} a second time: {} is of the same variant and seed{}",
                              seed_of(first), first.name, alike ? "" : ", of another definition"),
                  alike ? "one run of each seed, for a repetition is no new training"
                        : "runs of one definition");
}

std::map<std::string, Workload> workloads_of(const Side& side) {
  std::map<std::string, Workload> workloads;
  for (const NamedResult& run : side.runs) {
    const Identity& id = run.result.identity;
    workloads[workload_name(id)][variant_of(id)].push_back(&run);
  }
  for (auto& [name, workload] : workloads) {
    for (auto& [variant, runs] : workload) sort_single_seeds(runs);
  }
  return workloads;
}

/// Returns nothing for what is only a reference.
std::optional<Variant> reference_of(const Variant& variant, const Workload& workload) {
  if (!variant.reduction.empty()) return Variant{variant.mode, variant.baseline, variant.precision};
  if (variant.mode != kPlain.mode) return Variant{"none", variant.baseline, variant.precision};
  if (variant == kPlain || !workload.contains(kPlain)) return std::nullopt;
  return kPlain;
}

/// Says why a run is not the locked work on the official data.
std::vector<std::string> remarks_of(const Identity& id) {
  std::vector<std::string> remarks;
  if (id.custom) {
    remarks.push_back(id.overrides.empty()
                          ? "custom definition"
                          : fmt::format("custom definition: {}", fmt::join(id.overrides, " ")));
  }
  if (id.data == "unofficial") remarks.emplace_back(kUnofficialRemark);
  return remarks;
}

VariantRuns described(const std::string& benchmark, const Runs& runs) {
  VariantRuns variant;
  variant.benchmark = benchmark;
  variant.variant = variant_name(runs.front()->result.identity);
  std::set<std::string> commits;
  std::set<std::string> remarks;
  for (const NamedResult* run : runs) {
    const Provenance& from = run->result.provenance;
    variant.seeds.push_back(seed_of(*run));
    variant.run_ids.push_back(run->result.run_id);
    commits.insert(from.commit());
    for (std::string& remark : remarks_of(run->result.identity)) remarks.insert(std::move(remark));
  }
  variant.commits.assign(commits.begin(), commits.end());
  variant.remarks.assign(remarks.begin(), remarks.end());
  variant.repeat_command = runs.front()->result.repeat_command;
  return variant;
}

}  // namespace

std::string variant_name(const Identity& identity) {
  const std::string rounded =
      identity.reduction.empty() ? "" : fmt::format("-{}-reduced", identity.reduction);
  return fmt::format("{}-{}-{}{}", identity.mode, identity.baseline, identity.precision, rounded);
}

std::string workload_name(const Identity& identity) {
  std::string name = benchmark_name(identity);
  const std::string device = identity.device_kind();
  if (device != (identity.scale == "gpu" ? "cuda" : "cpu")) name += ", " + device;
  if (!identity.is_own()) name += ", " + identity.framework;
  return name;
}

std::vector<VariantRuns> variants_of(const Side& side) {
  std::vector<VariantRuns> variants;
  for (const auto& [name, workload] : workloads_of(side)) {
    for (const auto& [variant, runs] : workload) variants.push_back(described(name, runs));
  }
  return variants;
}

std::vector<const NamedResult*> runs_of(const Side& side, const VariantRuns& variant) {
  Runs runs;
  for (const NamedResult& run : side.runs) {
    const Identity& id = run.result.identity;
    if (workload_name(id) == variant.benchmark && variant_name(id) == variant.variant) {
      runs.push_back(&run);
    }
  }
  sort_single_seeds(runs);
  return runs;
}

std::vector<Pairing> pairings_of(const Side& side) {
  std::vector<Pairing> pairings;
  for (const auto& [name, workload] : workloads_of(side)) {
    for (const auto& [variant, runs] : workload) {
      const auto reference = reference_of(variant, workload);
      if (!reference) continue;
      Pairing& pairing = pairings.emplace_back();
      pairing.benchmark = name;
      pairing.variant = variant_name(runs.front()->result.identity);
      pairing.cell.name = fmt::format("{}, {}", name, pairing.variant);
      const auto found = workload.find(*reference);
      if (found == workload.end()) continue;
      pairing.reference = variant_name(found->second.front()->result.identity);
      pairing.cell.pairs =
          pair_by_seed(found->second, runs, [&](const NamedResult& run, bool is_reference) {
            pairing.unpaired.push_back(fmt::format(
                "{}: seed {} (run {})", is_reference ? pairing.reference : pairing.variant,
                seed_of(run), run.result.run_id));
          });
    }
  }
  return pairings;
}

}  // namespace noisemark::reports
