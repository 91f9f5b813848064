#include "reports/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "reports/base/error.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

/// A figure of one run; all but the unit empty: not measured.
struct Figure {
  std::optional<double> number;
  std::string digest;
  std::string unit = {};  ///< unit that the run gives, if it gives one

  [[nodiscard]] bool missing() const { return !number && digest.empty(); }
  /// Does not look at the units, which are compared before.
  [[nodiscard]] bool same(const Figure& other) const {
    return number == other.number && digest == other.digest;
  }
};

enum class Rule { kEqual, kMayFall, kMayMove };

struct Exact {
  std::string metric;
  std::string unit;
  Rule rule = Rule::kEqual;
  std::function<Figure(const Result&)> of;
  std::string at = {};  ///< moment, if the figure is an owner's bytes
};

Figure metric_figure(const Result& result, const std::string& name) {
  const Metric* metric = find_metric(result, name);
  if (metric == nullptr || !metric->value) return {};
  return {metric->value, "", metric->unit};
}

const MemorySnapshot* snapshot_at(const Result& result, const std::string& at) {
  if (!result.memory.measured) return nullptr;
  if (at == result.memory.peak.at) return &result.memory.peak;
  for (const MemorySnapshot& shot : result.memory.boundaries) {
    if (shot.at == at) return &shot;
  }
  return nullptr;
}

Figure owned_figure(const Result& result, const std::string& at, const std::string& owner) {
  const MemorySnapshot* shot = snapshot_at(result, at);
  if (shot == nullptr) return {};
  if (owner.empty()) return {static_cast<double>(shot->unattributed_bytes), ""};
  // A program that does not know the owner counts nothing for it.
  return {static_cast<double>(shot->bytes_of(owner)), ""};
}

void add_owned(const Result& result, std::map<std::string, Exact>& rows) {
  std::vector<const MemorySnapshot*> shots = {&result.memory.peak};
  for (const MemorySnapshot& shot : result.memory.boundaries) shots.push_back(&shot);
  for (const MemorySnapshot* shot : shots) {
    const std::string& at = shot->at;
    const std::string lost = at + ": without an owner";
    rows[lost] = {lost, "bytes", Rule::kMayFall,
                  [at](const Result& r) { return owned_figure(r, at, ""); }};
    for (const auto& [owner, bytes] : shot->by_category) {
      const std::string name = fmt::format("{}: {}", at, owner);
      rows[name] = {name, "bytes", Rule::kMayMove,
                    [at, owner = owner](const Result& r) { return owned_figure(r, at, owner); },
                    at};
    }
  }
}

/// Every figure that a run of the cell has.
std::vector<Exact> figures_of(const Cell& cell) {
  std::vector<Exact> figures;
  for (const MetricRow& row : metric_table()) {
    if (!is_exact(row)) continue;
    const std::string name(row.name);
    figures.push_back({name, std::string(row.unit),
                       row.rule == MetricRule::kEqual ? Rule::kEqual : Rule::kMayFall,
                       [name](const Result& r) { return metric_figure(r, name); }});
  }
  if (cell.pairs.front().first->result.protocol.deterministic) {
    figures.push_back({kLossTrace, "", Rule::kEqual, [](const Result& r) {
                         return Figure{{}, r.determinism.loss_trace_sha256};
                       }});
  }
  std::map<std::string, Exact> owned;
  for (const auto& [base, candidate] : cell.pairs) {
    if (base->result.memory.measured) add_owned(base->result, owned);
    if (candidate->result.memory.measured) add_owned(candidate->result, owned);
  }
  for (auto& [name, exact] : owned) figures.push_back(std::move(exact));
  return figures;
}

/// The figures of the runs that had the same seed.
struct PairedFigures {
  std::vector<Figure> base;
  std::vector<Figure> candidate;

  [[nodiscard]] bool base_varies() const {
    return std::any_of(base.begin(), base.end(),
                       [&](const Figure& figure) { return !figure.same(base.front()); });
  }
};

double least(const std::vector<Figure>& figures) {
  double value = figures.front().number.value_or(0);
  for (const Figure& figure : figures) value = std::min(value, figure.number.value_or(value));
  return value;
}

double greatest(const std::vector<Figure>& figures) {
  double value = figures.front().number.value_or(0);
  for (const Figure& figure : figures) value = std::max(value, figure.number.value_or(value));
  return value;
}

std::map<uint64_t, PairedFigures> by_seed(const Cell& cell, const Exact& exact) {
  std::map<uint64_t, PairedFigures> seeds;
  for (const auto& [base, candidate] : cell.pairs) {
    PairedFigures& runs = seeds[base->result.seeds.base];
    runs.base.push_back(exact.of(base->result));
    runs.candidate.push_back(exact.of(candidate->result));
  }
  return seeds;
}

bool peak_fell(const Cell& cell) {
  return std::all_of(cell.pairs.begin(), cell.pairs.end(), [](const RunPair& pair) {
    const Figure base = metric_figure(pair.first->result, "peak_bytes");
    const Figure candidate = metric_figure(pair.second->result, "peak_bytes");
    return base.number && candidate.number && *candidate.number < *base.number;
  });
}

/// Returns whether there are fewer bytes at that moment, and no more of them without an owner.
bool fell_at(const Cell& cell, const std::string& at) {
  return std::all_of(cell.pairs.begin(), cell.pairs.end(), [&](const RunPair& pair) {
    const MemorySnapshot* base = snapshot_at(pair.first->result, at);
    const MemorySnapshot* candidate = snapshot_at(pair.second->result, at);
    return base != nullptr && candidate != nullptr &&
           candidate->allocator_bytes < base->allocator_bytes &&
           candidate->unattributed_bytes <= base->unattributed_bytes;
  });
}

/// Says why bytes of an owner may differ; empty: they may not.
std::string why_moved(const Cell& cell, const Exact& exact, bool lower_peak) {
  if (exact.rule != Rule::kMayMove) return "";
  if (lower_peak) return "the peak fell";
  return fell_at(cell, exact.at) ? "there are fewer bytes at that moment" : "";
}

void judge(ExactRow& row, Rule rule, const std::string& moved) {
  const bool fell = row.base && row.candidate && *row.candidate < *row.base;
  if (rule == Rule::kEqual) {
    row.verdict = CompareVerdict::kRegression;
    row.words = "must be equal";
  } else if (!moved.empty()) {
    row.verdict = CompareVerdict::kImproved;
    row.words = "moved, and " + moved;
  } else if (fell && rule == Rule::kMayFall) {
    row.verdict = CompareVerdict::kImproved;
  } else {
    row.verdict = CompareVerdict::kRegression;
    row.words = rule == Rule::kMayMove
                    ? "differs, and neither the peak nor all bytes at that moment fell"
                    : "rose";
  }
}

/// BASE's own runs of the seed differ, so that a single difference proves nothing.
void judge_noisy(ExactRow& row, const PairedFigures& runs, bool numbers) {
  if (numbers && least(runs.candidate) > greatest(runs.base)) {
    row.verdict = CompareVerdict::kRegression;
    row.words = "rose beyond every run of BASE";
  } else {
    row.verdict = CompareVerdict::kInconclusive;
    row.words = "differs between runs of BASE";
  }
}

void judge_missing(ExactRow& row, const Figure& base) {
  row.verdict = base.missing() ? CompareVerdict::kCalibrationNeeded : CompareVerdict::kIncomplete;
  row.words = base.missing() ? "the base has no such figure" : "no longer measured";
}

ExactRow row_of(const Cell& cell, const Exact& exact, const Figure& base, const Figure& candidate) {
  const std::string& unit = base.unit.empty() ? candidate.unit : base.unit;
  return {cell.name,
          exact.metric,
          unit.empty() ? exact.unit : unit,
          base.number,
          candidate.number,
          base.digest,
          candidate.digest,
          {},
          {}};
}

ExactRow compare_pair(const Cell& cell, const Exact& exact, const RunPair& pair,
                      const PairedFigures& runs, const std::string& moved) {
  const Figure base = exact.of(pair.first->result);
  const Figure candidate = exact.of(pair.second->result);
  ExactRow row = row_of(cell, exact, base, candidate);
  if (base.same(candidate)) return row;
  if (base.missing() || candidate.missing()) {
    judge_missing(row, base);
  } else if (runs.base_varies()) {
    judge_noisy(row, runs, base.number.has_value());
  } else {
    judge(row, exact.rule, moved);
  }
  return row;
}

std::set<std::string> units_of(const Cell& cell, const Exact& exact) {
  std::set<std::string> units;
  for (const RunPair& pair : cell.pairs) {
    for (const NamedResult* run : {pair.first, pair.second}) {
      const std::string unit = exact.of(run->result).unit;
      if (!unit.empty()) units.insert(unit);
    }
  }
  return units;
}

/// The worst pair, of equally bad ones the first. It is empty where no run has the figure.
std::optional<ExactRow> compare_one(const Cell& cell, const Exact& exact, bool lower_peak) {
  const std::string moved = why_moved(cell, exact, lower_peak);
  const std::set<std::string> units = units_of(cell, exact);
  const std::map<uint64_t, PairedFigures> seeds = by_seed(cell, exact);
  std::optional<ExactRow> worst;
  for (const RunPair& pair : cell.pairs) {
    const bool missing =
        exact.of(pair.first->result).missing() && exact.of(pair.second->result).missing();
    if (missing) continue;
    ExactRow row = compare_pair(cell, exact, pair, seeds.at(pair.first->result.seeds.base), moved);
    if (!worst || row.verdict > worst->verdict) worst = std::move(row);
  }
  if (worst && units.size() > 1) {
    worst->verdict = CompareVerdict::kNotComparable;
    worst->words = fmt::format("the units differ: {}", fmt::join(units, ", "));
  }
  return worst;
}

/// Says why no run of the cell has the metric though all list it; empty: some run has it, or none
/// lists it.
std::string missing_everywhere(const Cell& cell, const std::string& name) {
  std::string why;
  for (const RunPair& pair : cell.pairs) {
    for (const NamedResult* run : {pair.first, pair.second}) {
      const Metric* metric = find_metric(run->result, name);
      if (metric == nullptr || metric->value) return "";
      why = metric->missing_reason.empty() ? "no reason given" : metric->missing_reason;
    }
  }
  return why;
}

/// Returns whether no run of the cell made the pass that measures it, or a peer cannot.
bool could_not_be_had(const Cell& cell, const std::string& metric) {
  return std::all_of(cell.pairs.begin(), cell.pairs.end(), [&](const RunPair& pair) {
    const auto without = [&](const Result& result) {
      const Protocol& protocol = result.protocol;
      const bool made = find_metric_row(metric)->pass == MetricPass::kProfile
                            ? protocol.profile_steps > 0
                            : protocol.memory_steps > 0;
      return !made || !result.identity.is_own();
    };
    return without(pair.first->result) && without(pair.second->result);
  });
}

/// A gate that both sides should have and neither has is not a gate that passed.
void add_lost_gates(const Cell& cell, std::vector<ExactRow>& rows) {
  for (const std::string& name : exact_metrics()) {
    const std::string why = missing_everywhere(cell, name);
    if (why.empty() || could_not_be_had(cell, name)) continue;
    rows.push_back({cell.name,
                    name,
                    "",
                    {},
                    {},
                    {},
                    {},
                    CompareVerdict::kCalibrationNeeded,
                    "measured on neither side: " + why});
  }
}

/// 0 is no usable baseline for a figure of work or memory.
void refuse_zero(ExactRow& row) {
  const MetricRow* metric = find_metric_row(row.metric);
  const bool may_be_zero = metric == nullptr || !is_exact(*metric) || metric->may_be_zero;
  if (may_be_zero || row.base != 0.0) return;
  row.verdict = CompareVerdict::kCalibrationNeeded;
  row.words = "the base is zero";
}

bool passed(const Result& result) {
  return result.exit.code == static_cast<int>(ExitCode::kPass);
}

/// Returns whether all that failed are gates on how good the trained model is.
bool only_quality_failed(const Result& result) {
  bool any = false;
  for (const Gate& gate : result.gates) {
    if (gate.verdict != Verdict::kFail) continue;
    const MetricRow* metric = find_metric_row(gate.metric);
    if (metric == nullptr || metric->cause != MetricCause::kModel) return false;
    any = true;
  }
  return any;
}

CompareVerdict exit_verdict(const Result& result, bool is_base) {
  if (passed(result)) return CompareVerdict::kEquivalent;
  if (is_base) {
    return is_finished(result) ? CompareVerdict::kCalibrationNeeded
                               : CompareVerdict::kNotComparable;
  }
  if (!is_finished(result)) return CompareVerdict::kIncomplete;
  return only_quality_failed(result) ? CompareVerdict::kQualityFail : CompareVerdict::kRegression;
}

ExactRow compare_exits(const Cell& cell) {
  ExactRow row{cell.name, "absolute gates", "", {}, {}, "passed", "passed", {}, {}};
  for (const auto& [base, candidate] : cell.pairs) {
    for (const NamedResult* run : {base, candidate}) {
      if (passed(run->result)) continue;
      const Exit& exit = run->result.exit;
      (run == base ? row.base_digest : row.candidate_digest) = exit.status;
      const CompareVerdict verdict = exit_verdict(run->result, run == base);
      if (verdict <= row.verdict) continue;
      row.verdict = verdict;
      row.words = fmt::format("run {}: {}{}", run->result.run_id, exit.status,
                              exit.reasons.empty() ? "" : ": " + exit.reasons.front());
    }
  }
  return row;
}

}  // namespace

std::vector<ExactRow> compare_exact(const Cell& cell) {
  std::vector<ExactRow> rows = {compare_exits(cell)};
  const bool lower_peak = peak_fell(cell);
  for (const Exact& exact : figures_of(cell)) {
    std::optional<ExactRow> row = compare_one(cell, exact, lower_peak);
    if (!row) continue;
    refuse_zero(*row);
    rows.push_back(std::move(*row));
  }
  add_lost_gates(cell, rows);
  return rows;
}

std::vector<std::string> left_out_figures(const Cell& cell) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const std::string& name : exact_metrics()) {
    const std::string why = missing_everywhere(cell, name);
    if (!why.empty() && could_not_be_had(cell, name)) by_reason[why].push_back(name);
  }
  std::vector<std::string> sentences;
  for (const auto& [why, names] : by_reason) {
    sentences.push_back(fmt::format("{}: not judged, for neither side has it: {} ({})", cell.name,
                                    fmt::join(names, ", "), why));
  }
  return sentences;
}

}  // namespace noisemark::reports
