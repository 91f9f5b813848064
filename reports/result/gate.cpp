#include "reports/result/gate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "reports/base/quantity.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

constexpr double kPeakClosure = 0.01;

std::string sentence(const Gate& gate) {
  return fmt::format("{} is {}, {} ({} {}).", gate.metric, format_quantity(*gate.value, gate.unit),
                     gate.verdict == Verdict::kPass ? "as it must be" : "which it must not be",
                     gate.relation, format_quantity(gate.bound, gate.unit));
}

Gate decided(Gate gate, double value) {
  gate.value = value;
  gate.verdict = satisfies(value, gate.relation, gate.bound) ? Verdict::kPass : Verdict::kFail;
  gate.words = sentence(gate);
  return gate;
}

/// Decides a gate, with other words for a pass and for a failure.
Gate decided(Gate gate, double value, const std::string& passed, const std::string& failed) {
  gate = decided(std::move(gate), value);
  gate.words = gate.verdict == Verdict::kPass ? passed : failed;
  return gate;
}

Gate failed(Gate gate, const std::string& words) {
  gate.verdict = Verdict::kFail;
  gate.words = words;
  return gate;
}

Gate not_applied(Gate gate, const std::string& why) {
  gate.verdict = Verdict::kNotApplied;
  gate.words = "Not applied: " + why + ".";
  return gate;
}

Gate finite_loss(const Result& result, const Finiteness& finiteness) {
  const double skipped = metric_value(result, kSkippedMetric).value_or(0);
  const Gate gate{{}, "non_finite_tensors", "at most", {}, 0, "count", {}, {}};
  const std::string but_for =
      skipped > 0 ? ", but for the steps that loss scaling skipped (" + format_number(skipped) + ")"
                  : "";
  return decided(gate, finiteness.finite ? 0 : 1,
                 "Every training loss and gradient norm was finite" + but_for + ".",
                 "Training left the finite numbers; the first was " + finiteness.first_bad + ".");
}

Gate without_memory(const Gate& gate, const MemorySection& memory) {
  return not_applied(gate, "memory was not measured (" + memory.missing_reason + ")");
}

Gate closure_boundaries(const MemorySection& memory) {
  Gate gate{{}, "unattributed_bytes", "at most", {}, 0, "bytes", {}, {}};
  if (!memory.measured) return without_memory(gate, memory);
  if (memory.boundaries.empty()) {
    return failed(gate, "No phase boundary was recorded, so nothing shows that the bytes close.");
  }
  const MemorySnapshot* worst = &memory.boundaries.front();
  for (const MemorySnapshot& snapshot : memory.boundaries) {
    if (std::llabs(snapshot.unattributed_bytes) > std::llabs(worst->unattributed_bytes)) {
      worst = &snapshot;
    }
  }
  return decided(gate, static_cast<double>(std::llabs(worst->unattributed_bytes)),
                 fmt::format("Every live byte has an owner at all {} phase boundaries.",
                             memory.boundaries.size()),
                 fmt::format("At {}, {} are off: the owners' sum is not what the allocator holds.",
                             worst->at, format_exact_bytes(worst->unattributed_bytes)));
}

Gate closure_peak(const MemorySection& memory) {
  Gate gate{{}, "unattributed_frac_at_peak", "at most", {}, kPeakClosure, "frac", {}, {}};
  if (!memory.measured) return without_memory(gate, memory);
  if (memory.peak.allocator_bytes <= 0) {
    return failed(gate, "No peak was recorded, so nothing shows that the bytes close there.");
  }
  const auto off = static_cast<double>(std::llabs(memory.peak.unattributed_bytes));
  gate = decided(gate, off / static_cast<double>(memory.peak.allocator_bytes));
  gate.words = fmt::format("At the peak {} of {} have no owner ({}, at most {}).",
                           format_exact_bytes(memory.peak.unattributed_bytes),
                           format_exact_bytes(memory.peak.allocator_bytes),
                           format_percent(*gate.value), format_percent(kPeakClosure));
  return gate;
}

Gate leak(const MemorySection& memory) {
  Gate gate{{}, "leaked_bytes", "equals", {}, 0, "bytes", {}, {}};
  if (!memory.measured) return without_memory(gate, memory);
  return decided(gate, static_cast<double>(memory.leaked_bytes),
                 "After the step as many bytes are live as before it.",
                 fmt::format("After the step {} more are live than before it.",
                             format_exact_bytes(memory.leaked_bytes)));
}

Gate certificate(const MemoryMode& mode) {
  Gate gate{{}, "differing_steps", "equals", {}, 0, "count", {}, {}};
  const Certificate& proof = mode.certificate;
  gate.verdict = proof.verdict;
  gate.words = mode.measured ? proof.words : "Not applied: " + mode.missing_reason + ".";
  if (proof.verdict == Verdict::kNotApplied) return gate;
  if (proof.verdict == Verdict::kUnavailable) {
    gate.verdict = Verdict::kFail;  // the mode claims to be lossless, and nothing shows it
    return gate;
  }
  double differing = 0;
  for (size_t i = 0; i < proof.sha256.size(); ++i) {
    const bool known = i < proof.reference_sha256.size();  // a changed file may lack some
    if (!known || proof.sha256[i] != proof.reference_sha256[i]) ++differing;
  }
  gate = decided(gate, differing);
  gate.words = proof.words;
  return gate;
}

/// Returns the reason why a mode kept everything in a pass that was made, or nothing shows that it
/// did not; empty where it followed a plan or the pass says nothing.
std::string why_without_plan(const MemoryMode& mode, const PassFallbacks& pass) {
  if (!pass.missing_reason.empty()) return "";
  if (!pass.plan_missing_reason.empty()) return pass.plan_missing_reason;
  // A lossy mode has this in place of a certificate: without it, it may have rounded nothing.
  const bool unproven = !mode.lossless && !mode.gradient_error.error_frac;
  if (pass.pass != "certificate" || !unproven) return "";
  return "the gradient error is missing: " + mode.gradient_error.missing_reason;
}

/// A mode that keeps everything is exact, leaks nothing and is as fast as none: no other gate sees
/// it.
Gate plan(const MemoryMode& mode) {
  Gate gate{{}, "passes_without_plan", "equals", {}, 0, "count", {}, {}};
  std::vector<std::string> made;
  std::vector<std::string> without;
  for (const PassFallbacks& pass : mode.fallbacks) {
    if (pass.missing_reason.empty()) made.push_back(pass.pass);
    const std::string why = why_without_plan(mode, pass);
    if (!why.empty()) without.push_back(fmt::format("{} ({})", pass.pass, why));
  }
  if (made.empty()) {
    return not_applied(gate, "no pass was made that could have followed a plan");
  }
  return decided(gate, static_cast<double>(without.size()),
                 fmt::format("The mode had a plan in every pass: {}.", fmt::join(made, ", ")),
                 fmt::format("Without a plan the mode saves nothing; it had none in: {}.",
                             fmt::join(without, "; ")));
}

struct Held {
  int64_t bytes = 0;
  int64_t rank = 0;
};

/// Each of several ranks keeps the budget by itself: the one that held the most.
Held most_held(const Result& result) {
  const bool all = result.memory_mode.budget.figure == "peak_bytes";
  Held most{all ? result.memory.peak_bytes : result.memory.peak_saved_bytes, 0};
  for (const RankRecord& rank : result.ranks) {
    const int64_t bytes = all ? rank.peak.allocator_bytes : rank.peak_saved_bytes.value_or(0);
    if (bytes > most.bytes) most = {bytes, rank.rank};
  }
  return most;
}

Gate budget(const Result& result) {
  const ModeBudget& asked = result.memory_mode.budget;
  const auto bound = static_cast<double>(asked.bytes.value_or(0));
  Gate gate{{}, asked.figure, "at most", {}, bound, "bytes", {}, {}};
  if (!result.memory.measured) return without_memory(gate, result.memory);
  const Held held = most_held(result);
  gate = decided(gate, static_cast<double>(held.bytes));
  const std::string where = result.ranks.empty() ? ""
                                                 : fmt::format(" on rank {}, the most of {}",
                                                               held.rank, result.ranks.size());
  gate.words = fmt::format("{} of a steady step are {}{}, {} the budget of {}.", asked.figure,
                           format_exact_bytes(held.bytes), where,
                           gate.verdict == Verdict::kPass ? "within" : "above",
                           format_exact_bytes(*asked.bytes));
  return gate;
}

/// Judges every step that the mode counted, where `budget` judges a steady one by its allocations.
Gate budget_steps(const MemoryMode& mode) {
  Gate gate{{}, "exceeded_steps", "equals", {}, 0, "count", {}, {}};
  int64_t steps = 0;
  int64_t exceeded = 0;
  std::vector<std::string> passes;
  for (const PassFallbacks& pass : mode.fallbacks) {
    if (!pass.budget) continue;
    const BudgetSteps& kept = *pass.budget;
    steps += kept.steps;
    exceeded += kept.exceeded;
    if (kept.exceeded == 0) continue;
    passes.push_back(fmt::format("{} of {} in the {} pass ({})", kept.exceeded, kept.steps,
                                 pass.pass, kept.exceeded_reason));
  }
  if (steps == 0) {
    return not_applied(gate, "no step was made that could have kept the budget");
  }
  return decided(gate, static_cast<double>(exceeded),
                 fmt::format("All {} steps with a plan kept the budget.", steps),
                 fmt::format("Steps did not keep the budget: {}.", fmt::join(passes, "; ")));
}

/// Judges a step beside "none". The planner's own measurement is no evidence: it takes no plan that
/// it found to be above the bound.
Gate budget_error(const MemoryMode& mode) {
  const double bound = *mode.budget.error_frac;
  Gate gate{{}, "gradient_error", "at most", {}, bound, "frac", {}, {}};
  const GradientError& error = mode.gradient_error;
  if (!error.error_frac) {
    return not_applied(
        gate, error.missing_reason.empty() ? "no error was measured" : error.missing_reason);
  }
  gate = decided(gate, *error.error_frac);
  gate.words = fmt::format(
      "In a step beside none the gradient is off by {} of its length, {} the error of {} that was "
      "asked for.",
      format_number(*gate.value), gate.verdict == Verdict::kPass ? "within" : "above",
      format_number(bound));
  return gate;
}

/// A rank that handed over nothing must not go unseen.
std::string why_not_all_ranks(const Result& result) {
  const auto found = static_cast<int64_t>(result.ranks.size());
  if (found == *result.identity.ranks) return "";
  return fmt::format("Only {} of {} ranks handed over what they found.", found,
                     *result.identity.ranks);
}

/// Returns the failed gate if a rank handed over nothing.
std::optional<Gate> without_ranks(const Gate& gate, const Result& result) {
  const std::string why = why_not_all_ranks(result);
  return why.empty() ? std::nullopt : std::optional(failed(gate, why));
}

/// Stages work on the same samples, so another noise on one of them is an error.
Gate noise_of_stages(const std::set<std::string>& noises) {
  Gate gate{{}, "stages_of_other_noise", "equals", {}, 0, "count", {}, {}};
  gate = decided(gate, static_cast<double>(noises.size()) - 1,
                 "All stages have the noise of the same samples.",
                 fmt::format("The stages have {} kinds of noise.", noises.size()));
  if (!noises.contains("")) return gate;
  return failed(gate, "A stage made no step of which the noise is known.");
}

/// Ranks that draw the same noise train on less than the batch, and no loss shows it.
Gate rank_noise(const Result& result) {
  Gate gate{{}, "ranks_of_equal_noise", "equals", {}, 0, "count", {}, {}};
  if (const auto lost = without_ranks(gate, result)) return *lost;
  const Protocol& protocol = result.protocol;
  if (protocol.resumed_at_step > 0 && protocol.resumed_at_step == protocol.steps) {
    return not_applied(gate, "no step was left when the run was resumed");
  }
  std::set<std::string> noises;
  for (const RankRecord& record : result.ranks) noises.insert(record.noise_sha256);
  if (!result.identity.pipeline.empty()) return noise_of_stages(noises);
  const size_t ranks = result.ranks.size();
  return decided(gate, static_cast<double>(ranks - noises.size()),
                 fmt::format("Each of {} ranks drew noise of its own.", ranks),
                 fmt::format("The {} ranks drew only {} kinds of noise.", ranks, noises.size()));
}

Gate rank_weights(const Result& result) {
  Gate gate{{}, "ranks_of_other_weights", "equals", {}, 0, "count", {}, {}};
  if (const auto lost = without_ranks(gate, result)) return *lost;
  const std::string& first = result.ranks.front().determinism.weights_sha256;
  const auto others = std::count_if(
      result.ranks.begin(), result.ranks.end(),
      [&](const RankRecord& record) { return record.determinism.weights_sha256 != first; });
  return decided(gate, static_cast<double>(others), "All ranks ended with the same weights.",
                 fmt::format("{} ranks ended with other weights than rank 0.", others));
}

/// Returns the snapshot with the most bytes that have no owner, of any rank.
std::pair<int64_t, const MemorySnapshot*> worst_of_ranks(const std::vector<RankRecord>& ranks) {
  std::pair<int64_t, const MemorySnapshot*> worst{0, &ranks.front().boundaries.front()};
  for (const RankRecord& record : ranks) {
    for (const MemorySnapshot& snapshot : record.boundaries) {
      if (std::llabs(snapshot.unattributed_bytes) > std::llabs(worst.second->unattributed_bytes)) {
        worst = {record.rank, &snapshot};
      }
    }
  }
  return worst;
}

Gate rank_closure(const Result& result) {
  Gate gate{{}, "unattributed_bytes", "at most", {}, 0, "bytes", {}, {}};
  if (!result.memory.measured) return without_memory(gate, result.memory);
  std::string why = why_not_all_ranks(result);
  for (const RankRecord& record : result.ranks) {
    if (!record.boundaries.empty()) continue;
    why += fmt::format("Rank {} recorded no phase boundary.", record.rank);
  }
  if (!why.empty()) return failed(gate, why);
  const auto [rank, worst] = worst_of_ranks(result.ranks);
  return decided(gate, static_cast<double>(std::llabs(worst->unattributed_bytes)),
                 "On every rank every live byte has an owner at all phase boundaries.",
                 fmt::format("On rank {} at {}, {} are off.", rank, worst->at,
                             format_exact_bytes(worst->unattributed_bytes)));
}

bool in_every_run(const Result&) {
  return true;
}

bool has_mode(const Result& result) {
  return result.identity.has_mode();
}

bool has_budget(const Result& result) {
  return result.memory_mode.budget.bytes.has_value();
}

bool has_error_bound(const Result& result) {
  return result.memory_mode.budget.error_frac.has_value();
}

bool has_ranks(const Result& result) {
  return result.identity.ranks.has_value();
}

/// A gate that no definition declares.
struct BuiltInGate {
  std::string_view name;
  bool (*applies)(const Result&);
  Gate (*judge)(const Result&, const Finiteness&);  ///< all but the name
};

constexpr BuiltInGate kBuiltInGates[] = {
    {kFiniteLossGate, in_every_run, finite_loss},
    {"closure_boundaries", in_every_run,
     [](auto& run, auto&) { return closure_boundaries(run.memory); }},
    {"closure_peak", in_every_run, [](auto& run, auto&) { return closure_peak(run.memory); }},
    {"leak", in_every_run, [](auto& run, auto&) { return leak(run.memory); }},
    {"certificate", has_mode, [](auto& run, auto&) { return certificate(run.memory_mode); }},
    {kPlanGate, has_mode, [](auto& run, auto&) { return plan(run.memory_mode); }},
    {"budget", has_budget, [](auto& run, auto&) { return budget(run); }},
    {"budget_steps", has_budget, [](auto& run, auto&) { return budget_steps(run.memory_mode); }},
    {"budget_error", has_error_bound,
     [](auto& run, auto&) { return budget_error(run.memory_mode); }},
    {"rank_noise", has_ranks, [](auto& run, auto&) { return rank_noise(run); }},
    {"rank_weights", has_ranks, [](auto& run, auto&) { return rank_weights(run); }},
    {"rank_closure", has_ranks, [](auto& run, auto&) { return rank_closure(run); }},
};

std::string missing_value(const Metric* metric, const std::string& name) {
  if (metric == nullptr) return fmt::format("{} is missing: the run has no such metric.", name);
  if (metric->value) return fmt::format("{} is not a finite number.", name);
  return fmt::format("{} is missing: {}.", name,
                     metric->missing_reason.empty() ? "no reason given" : metric->missing_reason);
}

/// Returns no text when the rule applies.
std::string why_not_applied(const Identity& identity, const GateRule& rule) {
  if (identity.custom && identity.overrides.empty()) return "the definition is not the locked one";
  if (identity.custom) return "the definition was changed by --set";
  const auto& known = rule.precisions;
  if (known.empty() || std::find(known.begin(), known.end(), identity.precision) != known.end()) {
    return "";
  }
  return fmt::format("calibrated for {} only", fmt::join(known, " and "));
}

Gate by_rule(const Result& result, const GateRule& rule) {
  Gate gate{rule.name, rule.metric, rule.relation, {}, rule.bound, "", {}, {}};
  const Metric* metric = find_metric(result, rule.metric);
  if (metric != nullptr) gate.unit = metric->unit;
  const bool known = metric != nullptr && metric->value && std::isfinite(*metric->value);
  gate = known ? decided(gate, *metric->value) : failed(gate, missing_value(metric, rule.metric));
  const std::string reason = why_not_applied(result.identity, rule);
  return reason.empty() ? gate : not_applied(gate, reason);
}

}  // namespace

bool satisfies(double value, const std::string& relation, double bound) {
  if (relation == "at most") return value <= bound;
  if (relation == "at least") return value >= bound;
  if (relation == "equals") return value == bound;
  throw std::logic_error("gate: unknown relation \"" + relation + "\"");
}

const Metric* find_metric(const Result& result, std::string_view name) {
  for (const Metric& metric : result.metrics) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

std::optional<double> metric_value(const Result& result, std::string_view name) {
  const Metric* metric = find_metric(result, name);
  return metric == nullptr ? std::nullopt : metric->value;
}

std::vector<Gate> evaluate_gates(const Result& result, const std::vector<GateRule>& rules,
                                 const Finiteness& finiteness) {
  std::vector<Gate> gates;
  for (const BuiltInGate& row : kBuiltInGates) {
    if (!row.applies(result)) continue;
    gates.push_back(row.judge(result, finiteness));
    gates.back().name = row.name;
  }
  for (const GateRule& rule : rules) {
    (void)satisfies(0, rule.relation, 0);  // a gate that is not applied must be well formed too
    gates.push_back(by_rule(result, rule));
  }
  return gates;
}

GateRule gradient_error_rule(double bound) {
  return {std::string(kGradientErrorGate), "gradient_error", "at most", bound};
}

bool fails_gate(const Result& result, std::string_view name) {
  return std::any_of(result.gates.begin(), result.gates.end(), [&](const Gate& gate) {
    return gate.name == name && gate.verdict == Verdict::kFail;
  });
}

bool is_finished(const Result& result) {
  if (result.exit.code == static_cast<int>(ExitCode::kPass)) return true;
  return result.exit.code == static_cast<int>(ExitCode::kFailed) && !result.gates.empty();
}

bool came_to_its_last_step(const Result& result) {
  return is_finished(result) && !fails_gate(result, kFiniteLossGate);
}

Exit exit_of(const std::vector<Gate>& gates, bool custom) {
  Exit exit;
  for (const Gate& gate : gates) {
    if (gate.verdict == Verdict::kFail) exit.reasons.push_back(gate.name + ": " + gate.words);
  }
  const ExitCode code = exit.reasons.empty() ? ExitCode::kPass : ExitCode::kFailed;
  exit.code = static_cast<int>(code);
  exit.status = !exit.reasons.empty() ? error_status(code) : custom ? kCustomStatus : kPassStatus;
  return exit;
}

}  // namespace noisemark::reports
