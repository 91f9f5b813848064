#include "reports/compare/exact_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "reports/error.h"
#include "reports/gate.h"

namespace noisemark::reports {
namespace {

/// Of one run; all empty: not measured.
struct Figure {
  std::optional<double> number;
  std::string digest;

  [[nodiscard]] bool missing() const { return !number && digest.empty(); }
  bool operator==(const Figure&) const = default;
};

enum class Rule { kEqual, kMayFall, kMayMove };

struct Exact {
  std::string metric;
  std::string unit;
  Rule rule = Rule::kEqual;
  std::function<Figure(const Result&)> of;
};

Figure metric_figure(const Result& result, const std::string& name) {
  const Metric* metric = find_metric(result, name);
  return {metric == nullptr ? std::nullopt : metric->value, ""};
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
  const auto bytes = shot->by_category.find(owner);
  if (bytes == shot->by_category.end()) return {};
  return {static_cast<double>(bytes->second), ""};
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
                    [at, owner = owner](const Result& r) { return owned_figure(r, at, owner); }};
    }
  }
}

/// Every figure that a run of the cell has.
std::vector<Exact> figures_of(const Cell& cell) {
  const auto metric = [](const std::string& name, const std::string& unit, Rule rule) {
    return Exact{name, unit, rule, [name](const Result& r) { return metric_figure(r, name); }};
  };
  std::vector<Exact> figures = {metric("peak_bytes", "bytes", Rule::kMayFall),
                                metric("saved_bytes", "bytes", Rule::kMayFall),
                                metric("peak_saved_bytes", "bytes", Rule::kMayFall),
                                metric("leaked_bytes", "bytes", Rule::kMayFall),
                                metric("parameters", "count", Rule::kEqual),
                                metric("flop_per_image", "FLOP", Rule::kEqual)};
  if (cell.pairs.front().first->result.protocol.deterministic) {
    figures.push_back({"loss trace", "", Rule::kEqual, [](const Result& r) {
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

/// Whether runs of one side that had the same seed disagree.
bool noisy(const Cell& cell, const Exact& exact) {
  std::map<std::pair<bool, uint64_t>, Figure> first;
  for (const auto& [base, candidate] : cell.pairs) {
    for (const NamedResult* run : {base, candidate}) {
      const Figure figure = exact.of(run->result);
      const auto key = std::pair(run == base, run->result.seeds.base);
      if (first.emplace(key, figure).first->second != figure) return true;
    }
  }
  return false;
}

bool peak_fell(const Cell& cell) {
  return std::all_of(cell.pairs.begin(), cell.pairs.end(), [](const RunPair& pair) {
    const Figure base = metric_figure(pair.first->result, "peak_bytes");
    const Figure candidate = metric_figure(pair.second->result, "peak_bytes");
    return base.number && candidate.number && *candidate.number < *base.number;
  });
}

void judge(ExactRow& row, Rule rule, bool moved) {
  const bool fell = row.base && row.candidate && *row.candidate < *row.base;
  if (rule == Rule::kEqual) {
    row.verdict = CompareVerdict::kRegression;
    row.words = "must be equal";
  } else if (rule == Rule::kMayMove && moved) {
    row.verdict = CompareVerdict::kImproved;
    row.words = "moved, and the peak fell";
  } else if (fell && rule == Rule::kMayFall) {
    row.verdict = CompareVerdict::kImproved;
  } else {
    row.verdict = CompareVerdict::kRegression;
    row.words = rule == Rule::kMayMove ? "differs, and the peak did not fall" : "rose";
  }
}

void judge_missing(ExactRow& row, const Figure& base) {
  row.verdict =
      base.missing() ? CompareVerdict::kCalibrationNeeded : CompareVerdict::kNotComparable;
  row.words = base.missing() ? "the base has no such figure" : "no longer measured";
}

std::optional<ExactRow> compare_one(const Cell& cell, const Exact& exact, bool moved) {
  ExactRow row{cell.name, exact.metric, exact.unit, {}, {}, {}, {}, {}, {}};
  bool any = false;
  for (const auto& [base, candidate] : cell.pairs) {
    const Figure a = exact.of(base->result);
    const Figure b = exact.of(candidate->result);
    if (a.missing() && b.missing()) continue;
    if (any && a == b) continue;
    row.base = a.number;
    row.candidate = b.number;
    row.base_digest = a.digest;
    row.candidate_digest = b.digest;
    any = true;
    if (a == b) continue;
    if (a.missing() || b.missing()) {
      judge_missing(row, a);
    } else if (noisy(cell, exact)) {
      row.verdict = CompareVerdict::kInconclusive;
      row.words = "differs between runs of one side";
    } else {
      judge(row, exact.rule, moved);
    }
    break;
  }
  return any ? std::optional(row) : std::nullopt;
}

/// 0 is no usable baseline for a figure of work or memory.
void refuse_zero(ExactRow& row) {
  if (row.metric != "peak_bytes" && row.metric != "parameters" && row.metric != "flop_per_image") {
    return;
  }
  if (row.base != 0.0) return;
  row.verdict = CompareVerdict::kCalibrationNeeded;
  row.words = "the base is zero";
}

bool passed(const Result& result) {
  return result.exit.code == static_cast<int>(ExitCode::kPass);
}

bool finished(const Result& result) {
  return passed(result) || result.exit.code == static_cast<int>(ExitCode::kFailed);
}

ExactRow compare_exits(const Cell& cell) {
  ExactRow row{cell.name, "absolute gates", "", {}, {}, "passed", "passed", {}, {}};
  for (const auto& [base, candidate] : cell.pairs) {
    for (const NamedResult* run : {base, candidate}) {
      if (passed(run->result)) continue;
      (run == base ? row.base_digest : row.candidate_digest) = run->result.exit.status;
      CompareVerdict verdict = CompareVerdict::kNotComparable;
      if (finished(run->result)) {
        verdict = run == base ? CompareVerdict::kCalibrationNeeded : CompareVerdict::kRegression;
      }
      if (verdict <= row.verdict) continue;
      row.verdict = verdict;
      row.words = fmt::format(
          "run {}: {}{}", run->result.run_id, run->result.exit.status,
          run->result.exit.reasons.empty() ? "" : ": " + run->result.exit.reasons.front());
    }
  }
  return row;
}

}  // namespace

const std::set<std::string>& exact_metrics() {
  static const std::set<std::string> names = {"peak_bytes",   "saved_bytes", "peak_saved_bytes",
                                              "leaked_bytes", "parameters",  "flop_per_image"};
  return names;
}

std::vector<ExactRow> compare_exact(const Cell& cell) {
  std::vector<ExactRow> rows = {compare_exits(cell)};
  const bool moved = peak_fell(cell);
  for (const Exact& exact : figures_of(cell)) {
    std::optional<ExactRow> row = compare_one(cell, exact, moved);
    if (!row) continue;
    refuse_zero(*row);
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace noisemark::reports
