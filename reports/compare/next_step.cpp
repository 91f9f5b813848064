#include "reports/compare/next_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/markdown.h"

namespace noisemark::reports {
namespace {

constexpr const char* kMakeInTurns =
    "Make the runs of both sides in turns (or use `noisemark ab`), or say with --calibration how "
    "far two sessions of this machine differ (`noisemark calibrate`).\n";

/// Of rows with this verdict: how many pairs they need.
std::string more_pairs(const Comparison& comparison, CompareVerdict verdict) {
  int64_t pairs = 0;
  int64_t most = 0;
  bool near = false;
  bool stored = false;
  for (const StochasticRow& row : comparison.stochastic) {
    if (!row.gated || row.verdict != verdict) continue;
    near = near || (!row.pairs_needed && !row.stored);
    stored = stored || row.stored;
    if (row.pairs_needed.value_or(0) <= pairs) continue;
    pairs = *row.pairs_needed;
    most = row.pairs;
  }
  std::string text;
  if (pairs > 0) {
    text += fmt::format("Make {} more runs of each side in turns ({} pairs in all).\n",
                        std::max<int64_t>(1, pairs - most), std::max(pairs, most + 1));
  }
  if (near) {
    text += "A difference lies so near its margin that thousands of pairs would be needed.\n";
  }
  if (stored) text += kMakeInTurns;
  if (text.empty()) text = "Find out why a figure that should have no noise differs.\n";
  return text;
}

std::string usable_baseline(const Comparison& comparison) {
  return std::string(
             "Make a usable baseline: passing runs of BASE that measured all that NEW did.\n") +
         (comparison.any_stored() ? kMakeInTurns : "");
}

/// Proven, and by more than what is let pass in the other direction.
bool is_beyond_margin(const StochasticRow& row) {
  if (!row.gated || row.verdict != CompareVerdict::kImproved || !row.ratio_ci95) return false;
  const double most = 1 + row.margin_frac;
  return row.direction == Direction::kHigher ? row.ratio_ci95->low > most
                                             : row.ratio_ci95->high * most < 1;
}

/// What has no noise has no margin either.
bool is_fewer_bytes(const ExactRow& row) {
  return row.verdict == CompareVerdict::kImproved && row.unit == "bytes" && !row.by_owner();
}

bool is_better(const Comparison& comparison) {
  return std::any_of(comparison.stochastic.begin(), comparison.stochastic.end(),
                     is_beyond_margin) ||
         std::any_of(comparison.exact.begin(), comparison.exact.end(), is_fewer_bytes);
}

/// A baseline that NEW beats is worth replacing, once somebody has looked at it.
std::string promotion(const Comparison& comparison) {
  const SideSummary& base = comparison.base;
  const bool enough = comparison.candidate.runs >= kFewestBaselineRuns;
  if (base.baseline_root.empty() || !enough || !is_better(comparison)) return "Nothing.\n";
  return fmt::format(
      "NEW is better, beyond the margin. To make it the baseline: {}; then review the change and "
      "commit it.\n",
      code(fmt::format("noisemark baseline promote {} --into {} --hardware {} --force",
                       comparison.candidate.name, base.baseline_root, base.baseline_hardware)));
}

}  // namespace

std::string next_step(const Comparison& comparison) {
  switch (comparison.verdict) {
    case CompareVerdict::kQualityFail:
    case CompareVerdict::kRegression:
      return "What regressed is proven; more runs will not change it.\n";
    case CompareVerdict::kInfraError:
      return "Make the runs of NEW again, so that each ends with a result that has every figure of "
             "BASE.\n";
    case CompareVerdict::kInvalidClocks:
      return "Cool or power the device better, or lock its clocks (`noisemark doctor`), and run "
             "both sides again.\n";
    case CompareVerdict::kRecipeMismatch:
      return "Give the changed definition a new version, or make BASE again with it.\n";
    case CompareVerdict::kNotComparable:
      return "Run both sides with the same definition, seeds, software and settings on the same "
             "machine; `noisemark table` shows results side by side without judging.\n";
    case CompareVerdict::kTooFewPairs:
      return more_pairs(comparison, comparison.verdict) +
             "Or judge figures without noise alone: --exact.\n";
    case CompareVerdict::kCalibrationNeeded:
      return usable_baseline(comparison);
    case CompareVerdict::kUnstable:
      return "Make longer runs, or a quieter machine (`noisemark doctor`), so that the time of a "
             "step settles.\n";
    case CompareVerdict::kInconclusive:
      return more_pairs(comparison, comparison.verdict);
    case CompareVerdict::kSkipped:
      return "Compare where it can run.\n";
    default:
      return promotion(comparison);
  }
}

}  // namespace noisemark::reports
