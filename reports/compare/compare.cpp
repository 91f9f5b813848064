#include "reports/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/compare/sides.h"
#include "reports/result/environment_changes.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

SideSummary summary(const Side& side) {
  std::set<std::string> commits;
  std::set<std::string> repeat;
  std::string latest_utc;
  for (const NamedResult& run : side.runs) {
    const Provenance& from = run.result.provenance;
    commits.insert(from.commit());
    latest_utc = std::max(latest_utc, run.result.created_utc);
    if (!run.result.repeat_command.empty()) repeat.insert(run.result.repeat_command);
  }
  const BaselinePlace place = side.baseline.value_or(BaselinePlace{});
  return {side.name,
          static_cast<int64_t>(side.runs.size()),
          {commits.begin(), commits.end()},
          {repeat.begin(), repeat.end()},
          place.root,
          place.hardware,
          latest_utc};
}

/// A cell of which no figure is on both sides proves nothing.
void find_empty_cells(const std::vector<Cell>& cells, Comparison& comparison) {
  for (const Cell& cell : cells) {
    const auto numbers = [&](const ExactRow& row) {
      return row.cell == cell.name && !row.unit.empty();
    };
    const auto gated = [&](const StochasticRow& row) {
      return row.cell == cell.name && row.judged();
    };
    if (std::any_of(comparison.exact.begin(), comparison.exact.end(), numbers)) continue;
    if (std::any_of(comparison.stochastic.begin(), comparison.stochastic.end(), gated)) continue;
    comparison.find(CompareVerdict::kInconclusive, cell.name + ": nothing was measured");
  }
}

void find_rows(Comparison& comparison) {
  for (const ExactRow& row : comparison.exact) {
    comparison.find(row.verdict, fmt::format("{}: {}: {} ({})", row.cell, row.metric,
                                             verdict_name(row.verdict), row.words));
  }
  for (const StochasticRow& row : comparison.stochastic) {
    if (!row.judged()) continue;
    comparison.find(row.verdict, fmt::format("{}: {}: {} ({})", row.cell, row.metric,
                                             verdict_name(row.verdict), row.words));
  }
}

void find_lone_cells(Comparison& comparison) {
  const CompareVerdict gone =
      comparison.cells == 0 ? CompareVerdict::kNotComparable : CompareVerdict::kIncomplete;
  for (const std::string& cell : comparison.only_base) {
    comparison.find(gone, cell + ": NEW has no such cell");
  }
  for (const std::string& cell : comparison.only_candidate) {
    comparison.find(CompareVerdict::kCalibrationNeeded, cell + ": BASE has no such cell");
  }
}

bool is_skipped(const Side& side, const std::string& name) {
  return std::any_of(side.lost.begin(), side.lost.end(),
                     [&](const LostRun& run) { return run.skipped && run.name == name; });
}

/// A cell that cannot run here on either side is no fault of NEW, and nothing that passed.
void find_lost_runs(const Side& base, const Side& candidate, Comparison& comparison) {
  for (const Side* side : {&base, &candidate}) {
    const bool is_base = side == &base;
    const auto words_of = [&](const LostRun& run) {
      return fmt::format("{}: {}: {}", is_base ? "BASE" : "NEW", run.name, run.why);
    };
    std::vector<LostRun> blamed;
    for (const LostRun& run : side->lost) {
      comparison.without_result.push_back(words_of(run));
      if (!is_skipped(base, run.name) || !is_skipped(candidate, run.name)) blamed.push_back(run);
    }
    for (const LostRun& run : by_reason(blamed)) {
      comparison.find(is_base ? CompareVerdict::kCalibrationNeeded : CompareVerdict::kIncomplete,
                      words_of(run));
    }
    for (const std::string& words : side->left_out) {
      comparison.notes.push_back(fmt::format("{}: {}", is_base ? "BASE" : "NEW", words));
    }
  }
}

/// A clock that runs backwards may have been wrong about anything; or the sides were swapped.
void find_clock_skew(const Side& base, const Side& candidate, Comparison& comparison) {
  const auto earlier = [](const NamedResult& a, const NamedResult& b) {
    return a.result.created_utc < b.result.created_utc;
  };
  const auto& last = *std::max_element(candidate.runs.begin(), candidate.runs.end(), earlier);
  const auto& first = *std::min_element(base.runs.begin(), base.runs.end(), earlier);
  if (!earlier(last, first)) return;
  comparison.differences.push_back(
      {"", "created_utc", first.result.created_utc, last.result.created_utc});
  comparison.find(
      CompareVerdict::kNotComparable,
      "every run of NEW was made before every run of BASE, by their clocks: BASE and NEW are "
      "swapped, or a clock is wrong");
}

/// The same version must be the same recipe. What --set changed is said to be changed.
CompareVerdict verdict_of(const std::vector<FieldDifference>& differences) {
  const auto differs_in = [&](const char* field) {
    return std::any_of(
        differences.begin(), differences.end(),
        [&](const FieldDifference& difference) { return difference.field == field; });
  };
  const bool declared = differs_in("identity.version") || differs_in("identity.overrides") ||
                        differs_in("identity.custom");
  return differs_in("identity.definition_sha256") && !declared ? CompareVerdict::kRecipeMismatch
                                                               : CompareVerdict::kNotComparable;
}

/// Splits off the cells that are not the same work on the same machine.
std::vector<Cell> comparable_cells(const Cells& cells, Comparison& comparison) {
  std::vector<Cell> comparable;
  for (const CellWithoutPairs& cell : cells.without_pairs) {
    comparison.differences.push_back(
        {cell.name, "seeds.base", cell.base_seeds, cell.candidate_seeds});
    comparison.find(CompareVerdict::kNotComparable,
                    fmt::format("{}: no seed in common (BASE: {}; NEW: {})", cell.name,
                                cell.base_seeds, cell.candidate_seeds));
  }
  for (const Cell& cell : cells.both) {
    std::vector<FieldDifference> differences = identity_differences(cell);
    if (differences.empty()) {
      comparable.push_back(cell);
      continue;
    }
    comparison.find(verdict_of(differences),
                    fmt::format("{}: differs in {}", cell.name, first_of(differences)));
    std::move(differences.begin(), differences.end(), std::back_inserter(comparison.differences));
  }
  return comparable;
}

std::string unstable(const Side& side, const char* name) {
  const auto count = std::count_if(side.runs.begin(), side.runs.end(), [](const NamedResult& run) {
    return !run.result.protocol.warmup_stable;
  });
  if (count == 0) return "";
  return fmt::format("{}: {} of {} runs never became steady", name, count, side.runs.size());
}

/// Settings of the machine that were not left alone; not every one of them moves what is judged.
std::string changed(const Side& side, const char* name) {
  std::set<std::string> settings;
  size_t runs = 0;
  for (const NamedResult& run : side.runs) {
    const std::vector<std::string> changes = changes_while_it_ran(run.result.environment);
    settings.insert(changes.begin(), changes.end());
    runs += changes.empty() ? 0 : 1;
  }
  if (runs == 0) return "";
  return fmt::format("{}: changed while it ran, in {} of {} runs: {}", name, runs, side.runs.size(),
                     fmt::join(settings, ", "));
}

std::vector<std::string> notes_on(const Side& base, const Side& candidate) {
  std::vector<std::string> notes;
  for (const std::string& note : {unstable(base, "BASE"), unstable(candidate, "NEW"),
                                  changed(base, "BASE"), changed(candidate, "NEW")}) {
    if (!note.empty()) notes.push_back(note);
  }
  return notes;
}

}  // namespace

Comparison compare(const Side& base, const Side& candidate, const StochasticOptions& options) {
  for (const Side* side : {&base, &candidate}) {
    if (side->runs.empty() && side->lost.empty()) {
      throw bad_input(side->name, "", "no results", "");
    }
  }
  const Cells cells = pair_runs(base, candidate);
  Comparison comparison;
  comparison.base = summary(base);
  comparison.candidate = summary(candidate);
  comparison.cells = static_cast<int64_t>(cells.both.size());
  comparison.only_base = cells.only_base;
  comparison.only_candidate = cells.only_candidate;
  comparison.unpaired = cells.unpaired;
  comparison.environment = environment_differences(cells.both);
  comparison.notes = notes_on(base, candidate);
  comparison.noise_left_out = !options.gates;
  comparison.alpha = options.alpha;
  comparison.resamples = options.resamples;
  comparison.seed = options.seed;
  if (cells.both.empty() && cells.only_base.size() == 1 && cells.only_candidate.size() == 1) {
    comparison.differences =
        cell_differences(base.runs.front().result.identity, candidate.runs.front().result.identity);
  }
  const std::vector<Cell> comparable = comparable_cells(cells, comparison);
  for (const Cell& cell : comparable) {
    std::vector<ExactRow> rows = compare_exact(cell);
    std::move(rows.begin(), rows.end(), std::back_inserter(comparison.exact));
    std::vector<std::string> left_out = left_out_figures(cell);
    std::move(left_out.begin(), left_out.end(), std::back_inserter(comparison.notes));
  }
  comparison.stochastic = compare_stochastic(comparable, options);
  find_rows(comparison);
  find_empty_cells(comparable, comparison);
  find_lone_cells(comparison);
  find_lost_runs(base, candidate, comparison);
  if (!base.runs.empty() && !candidate.runs.empty()) {
    find_clock_skew(base, candidate, comparison);
  } else if (comparison.reasons.empty()) {
    comparison.find(CompareVerdict::kSkipped, "nothing can run here");
  }
  return comparison;
}

namespace {

/// "throughput 16.84 images/s, was 16.00 images/s (5.3 % more)"; empty where a side lacks it.
std::string change_words(const MetricRow& row, const std::vector<const Result*>& base,
                         const Result& now) {
  std::vector<double> before;
  for (const Result* run : base) {
    if (const auto value = metric_value(*run, row.name); value && std::isfinite(*value))
      before.push_back(*value);
  }
  const std::optional<double> value = metric_value(now, row.name);
  if (before.empty() || !value) return "";
  const double was = median(before);
  const std::string is = fmt::format("{} {}", row.spoken, spoken_value(row, *value));
  if (was == *value) return is + " as before";
  const std::string share =
      was > 0 ? fmt::format(" ({} {})", format_percent(std::abs(*value / was - 1)),
                            *value > was ? "more" : "less")
              : "";
  return fmt::format("{}, was {}{}", is, spoken_value(row, was), share);
}

}  // namespace

std::string since_words(const Side& base, const NamedResult& now) {
  const std::string cell = cell_name(now.result.identity);
  Side same{base.name, {}};
  std::vector<const Result*> runs;
  for (const NamedResult& run : base.runs) {
    if (cell_name(run.result.identity) != cell) continue;
    if (run.result.run_id == now.result.run_id) return fmt::format("{} is this run", base.name);
    same.runs.push_back(run);
    runs.push_back(&run.result);
  }
  if (runs.empty()) return fmt::format("{} has no run of {}", base.name, cell);
  StochasticOptions exact;
  exact.gates = false;
  const Comparison comparison = compare(same, {"this run", {now}}, exact);
  const std::string why = comparison.reasons.empty() ? "" : " (" + comparison.reasons.front() + ")";
  std::vector<std::string> parts;
  if (comparison.verdict == CompareVerdict::kNotComparable) {
    parts.push_back("BASE is not comparable" + why);
  }
  for (const MetricRow& row : metric_table()) {
    if (row.spoken.empty()) continue;
    if (std::string words = change_words(row, runs, now.result); !words.empty()) {
      parts.push_back(std::move(words));
    }
  }
  if (comparison.verdict != CompareVerdict::kNotComparable) {
    parts.push_back(
        fmt::format("figures without noise are {}{}", verdict_name(comparison.verdict), why));
  }
  return fmt::format("{}; BASE is {}, {} run{}", fmt::join(parts, "; "), base.name, runs.size(),
                     runs.size() == 1 ? "" : "s, of which these are medians");
}

}  // namespace noisemark::reports
