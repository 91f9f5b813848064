#include "reports/baseline/baseline_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>

#include "reports/compare/comparable.h"
#include "reports/compare/exact_tier.h"
#include "reports/compare/stochastic_tier.h"
#include "reports/error.h"
#include "reports/gate.h"
#include "reports/report.h"

namespace noisemark::reports {
namespace {

constexpr size_t kCommitDigits = 12;

std::string device_kind(const Identity& id) {
  return id.device.substr(0, id.device.find(':'));
}

void check_run(const NamedResult& run) {
  const Result& result = run.result;
  const auto refuse = [&](const std::string& why) {
    return bad_input(run.name, "", why, "a run that makes a baseline");
  };
  if (result.identity.custom) throw refuse("its definition was changed");
  if (result.exit.code != static_cast<int>(ExitCode::kPass)) {
    throw refuse("it did not pass: " + result.exit.status);
  }
  if (result.identity.data == "unofficial") throw refuse("it trained on unofficial data");
}

void check_identity(const BaselineCell& cell) {
  const Strings first = identity_fields(cell.runs.front()->result);
  for (const NamedResult* run : cell.runs) {
    std::vector<std::string> differ;
    for (const FieldDifference& found : differing_fields(first, identity_fields(run->result))) {
      differ.push_back(found.field);
    }
    if (differ.empty()) continue;
    throw bad_input(
        run->name, cell.name,
        fmt::format("it differs from {} in {}", cell.runs.front()->name, fmt::join(differ, ", ")),
        "runs of one identity");
  }
}

/// Figures without noise must be the same in runs of one seed.
void check_exact(const BaselineCell& cell) {
  std::map<std::pair<std::string, uint64_t>, std::pair<double, const NamedResult*>> first;
  for (const NamedResult* run : cell.runs) {
    for (const std::string& name : exact_metrics()) {
      const Metric* metric = find_metric(run->result, name);
      if (metric == nullptr || !metric->value) continue;
      const auto [known, is_new] =
          first.emplace(std::pair(name, run->result.seeds.base), std::pair(*metric->value, run));
      if (is_new || known->second.first == *metric->value) continue;
      throw bad_input(run->name, name,
                      fmt::format("{} here and {} in {}", *metric->value, known->second.first,
                                  known->second.second->name),
                      "a figure without noise is the same in runs of one seed");
    }
  }
}

void check_gated(const BaselineCell& cell, const std::string& name) {
  size_t values = 0;
  for (const NamedResult* run : cell.runs) {
    const Metric* metric = find_metric(run->result, name);
    if (metric == nullptr || !metric->value) continue;
    ++values;
    if (*metric->value > 0) continue;
    throw Error(ExitCode::kBaselineNeeded,
                fmt::format("{}: {}: {} is no baseline", run->name, name, *metric->value));
  }
  if (values == cell.runs.size()) return;
  if (values == 0) {
    throw Error(ExitCode::kBaselineNeeded,
                fmt::format("{}: no run has a value of {}", cell.name, name));
  }
  throw bad_input(cell.name, name,
                  fmt::format("{} of {} runs have a value", values, cell.runs.size()),
                  "all of them");
}

std::string folder_name(std::string text) {
  for (char& c : text) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                      std::string_view("@+=.,_-").find(c) != std::string_view::npos;
    if (!kept) c = '-';
  }
  return text;
}

/// Lower case, words joined by one dash, without trade marks and rates.
std::string model_name(const std::string& model) {
  std::string words;
  for (size_t i = 0; i < model.size() && model[i] != '@'; ++i) {
    if (model[i] == '(') i = std::min(model.find(')', i), model.size() - 1);
    const auto c = static_cast<unsigned char>(model[i]);
    if (std::isalnum(c) != 0) {
      words += static_cast<char>(std::tolower(c));
    } else if (!words.empty() && words.back() != '-') {
      words += '-';
    }
  }
  while (!words.empty() && words.back() == '-') words.pop_back();
  return words.empty() ? "unknown" : words;
}

std::string hardware_value(const Identity& id, const std::string& field) {
  const auto found = id.hardware.find(field);
  return found == id.hardware.end() ? "" : found->second;
}

}  // namespace

std::vector<BaselineCell> baseline_cells(const Side& side) {
  std::map<std::string, BaselineCell> cells;
  for (const NamedResult& run : side.runs) {
    check_run(run);
    BaselineCell& cell = cells[cell_name(run.result.identity)];
    cell.name = cell_name(run.result.identity);
    cell.runs.push_back(&run);
  }
  std::vector<BaselineCell> all;
  for (auto& [name, cell] : cells) {
    std::sort(cell.runs.begin(), cell.runs.end(), [](const NamedResult* a, const NamedResult* b) {
      return std::tie(a->result.seeds.base, a->result.created_utc, a->result.run_id) <
             std::tie(b->result.seeds.base, b->result.created_utc, b->result.run_id);
    });
    check_identity(cell);
    if (static_cast<int64_t>(cell.runs.size()) < kFewestBaselineRuns) {
      throw bad_input(
          name, "", fmt::format("{} {}", cell.runs.size(), cell.runs.size() == 1 ? "run" : "runs"),
          fmt::format("at least {}", kFewestBaselineRuns));
    }
    check_exact(cell);
    for (const GatedMetric& gate : gated_metrics()) check_gated(cell, gate.name);
    all.push_back(std::move(cell));
  }
  return all;
}

std::vector<std::string> flags_of(const BaselineCell& cell) {
  std::vector<std::string> flags;
  std::set<std::string> commits;
  size_t dirty = 0;
  size_t unknown = 0;
  for (const NamedResult* run : cell.runs) {
    const Provenance& from = run->result.provenance;
    if (!from.git_commit.empty()) commits.insert(from.git_commit.substr(0, kCommitDigits));
    dirty += from.git_dirty ? 1 : 0;
    unknown += from.git_commit.empty() ? 1 : 0;
  }
  if (dirty > 0) {
    flags.push_back(fmt::format("{} of {} runs were built with changes that are in no commit",
                                dirty, cell.runs.size()));
  }
  if (unknown > 0) {
    flags.push_back(fmt::format("{} of {} runs name no commit", unknown, cell.runs.size()));
  }
  if (commits.size() > 1) {
    flags.push_back(fmt::format("the runs are of several commits: {}", fmt::join(commits, " ")));
  }
  return flags;
}

std::string hardware_folder(const Identity& id) {
  if (device_kind(id) == "cuda") return model_name(hardware_value(id, "gpu_model"));
  return fmt::format("{}-{}-{}", model_name(hardware_value(id, "cpu_model")), id.threads,
                     id.threads == 1 ? "thread" : "threads");
}

std::string cell_folder(const Identity& id) {
  return fmt::format(
      "{}/{}", folder_name(benchmark_name(id)),
      folder_name(fmt::format("{}-{}-{}-{}{}", id.mode, id.baseline, id.precision, device_kind(id),
                              id.framework == "noisemark" ? "" : "-" + id.framework)));
}

}  // namespace noisemark::reports
