#include "suite/run/passes/mode_figures.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "memopt/modes/budget_mode.h"
#include "memopt/modes/planned_mode.h"
#include "memopt/treatment/treatment.h"
#include "reports/base/markdown.h"
#include "reports/base/sha256.h"
#include "reports/compare/inference.h"

namespace noisemark::suite {
namespace {

std::string digest_of(const StepDigests& digests) {
  reports::Sha256 sha;
  for (const auto& [name, digest] : digests) sha.update(name + " " + digest + "\n");
  return sha.hex();
}

/// Name of the first tensor that differs; empty when none does.
std::string first_difference(const StepDigests& a, const StepDigests& b) {
  if (a.size() != b.size()) return "the number of tensors";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return a[i].first;
  }
  return "";
}

struct Difference {
  int64_t step = 0;  ///< 0: there is none
  std::string tensor;
};

Difference first_difference(const std::vector<int64_t>& steps, const Evidence& a,
                            const Evidence& b) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string tensor = first_difference(a.digests.at(i), b.digests.at(i));
    if (!tensor.empty()) return {steps[i], tensor};
  }
  return {};
}

/// The first compared step that did not follow the mode's plan; 0: all did.
struct NotFollowed {
  int64_t step = 0;
  std::string reason;
};

NotFollowed first_not_followed(const SideBySide& trained) {
  for (size_t i = 0; i < trained.mode.not_followed.size(); ++i) {
    const std::string& reason = trained.mode.not_followed[i];
    if (!reason.empty()) return {trained.compared.at(i), reason};
  }
  return {};
}

double squared_norm(const at::Tensor& tensor) {
  const double norm = at::linalg_vector_norm(tensor.to(at::kDouble), 2).item<double>();
  return norm * norm;
}

/// Returns a relative norm, from the squares of a difference and of what it is a difference from.
double relative(double difference, double reference) {
  return std::sqrt(reference > 0 ? difference / reference : difference);
}

double excess(const std::vector<double>& base, const std::vector<double>& candidate) {
  return std::expm1(reports::hodges_lehmann(reports::log_ratios(base, candidate)));
}

std::optional<int64_t> positive(int64_t bytes) {
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

/// Judges a lossless mode.
std::pair<reports::Verdict, std::string> judge(const SideBySide& trained) {
  const Difference itself = first_difference(trained.compared, trained.none, trained.none_again);
  const Difference found = first_difference(trained.compared, trained.mode, trained.none);
  if (itself.step == 0 && found.step > 0) {
    return {reports::Verdict::kFail,
            fmt::format("Differs from mode none after step {}, first in {}.", found.step,
                        found.tensor)};
  }
  const NotFollowed kept = first_not_followed(trained);
  if (kept.step > 0) {
    return {reports::Verdict::kUnavailable,
            fmt::format("Nothing is proven: compared step {} did not follow a plan and kept what "
                        "none keeps; {}.",
                        kept.step, kept.reason)};
  }
  if (itself.step > 0) {
    return {reports::Verdict::kUnavailable,
            fmt::format("Nothing is proven: mode none differs from itself after step {}, first in "
                        "{}.",
                        itself.step, itself.tensor)};
  }
  return {
      reports::Verdict::kPass,
      fmt::format("Loss, gradients and weights ({} tensors) have the same bits as under mode none "
                  "after steps {}.",
                  trained.mode.digests.front().size(), fmt::join(trained.compared, ", "))};
}

/// Adds what another rank counted in the same pass.
void join(reports::PassFallbacks& to, const reports::PassFallbacks& other, int64_t rank) {
  const auto first = [rank](std::string& reason, const std::string& of_other) {
    if (reason.empty() && !of_other.empty()) reason = fmt::format("on rank {}: {}", rank, of_other);
  };
  first(to.missing_reason, other.missing_reason);
  first(to.plan_missing_reason, other.plan_missing_reason);
  to.kept_after_mismatch += other.kept_after_mismatch;
  to.replayed_after_mismatch += other.replayed_after_mismatch;
  to.unrepeatable += other.unrepeatable;
  to.codec_fallbacks += other.codec_fallbacks;
  to.departures += other.departures;
  to.recipes_run_again += other.recipes_run_again;
  if (!other.budget) return;
  if (!to.budget) to.budget.emplace();
  to.budget->steps += other.budget->steps;
  to.budget->exceeded += other.budget->exceeded;
  to.budget->uncertain += other.budget->uncertain;
  first(to.budget->exceeded_reason, other.budget->exceeded_reason);
  first(to.budget->uncertain_reason, other.budget->uncertain_reason);
}

}  // namespace

void describe_plan(const memopt::Mode& mode, reports::MemoryMode& to) {
  const memopt::PlannedModeReport report = memopt::report_of(mode);
  set_fallbacks(to, fallbacks_of("memory", report));
  to.plan_missing_reason = report.missing_reason;
  const auto* planned = dynamic_cast<const memopt::PlannedMode*>(&mode);
  if (planned == nullptr) return;
  to.recorded_bytes = report.plan.recorded_bytes;
  to.held_bytes = report.plan.held_bytes;
  to.encoded_from_bytes = report.plan.encoded_from_bytes;
  to.dropped_bytes = report.plan.dropped_bytes;
  to.recipes = report.plan.recipes;
  to.irreplaceable_bytes = planned->irreplaceable_bytes();
  to.kept_after_mismatch = report.kept_after_mismatch;
  to.unrepeatable = report.unrepeatable;
  to.codec_fallbacks = report.counters.codec_fallbacks;
  to.departures = report.counters.departures;
  to.recipes_run_again = report.counters.recipes_run_again;
  if (report.host) {
    to.host_memory = {report.host->capacity_bytes, report.host->refused_tensors,
                      report.host->refused_bytes};
  }
  if (const auto* budgeted = dynamic_cast<const memopt::BudgetMode*>(planned)) {
    to.budget.measured_error_frac = budgeted->measured_error();
  }
  if (const auto plan = planned->plan()) {
    for (const memopt::HeldGroup& group : memopt::held_groups(*plan)) {
      to.held.push_back({group.made_by, std::string(memopt::keep_reason_name(group.reason)),
                         group.storages, group.bytes});
    }
  }
  if (const auto estimate = planned->estimate()) {
    to.predicted = {estimate->peak_bytes, estimate->saved_bytes, estimate->peak_saved_bytes};
    to.predicted_added_s = static_cast<double>(estimate->cost_ns) * 1e-9;
  }
}

reports::PassFallbacks fallbacks_of(const std::string& pass,
                                    const memopt::PlannedModeReport& report) {
  reports::PassFallbacks fallbacks;
  fallbacks.pass = pass;
  // A mode that watches again had a plan; the passes that left it are counted as departures.
  const bool had_one = report.followed_passes > 0 && report.counters.departures > 0;
  if (!had_one) fallbacks.plan_missing_reason = report.missing_reason;
  fallbacks.kept_after_mismatch = report.kept_after_mismatch;
  fallbacks.replayed_after_mismatch = report.replayed_after_mismatch;
  fallbacks.unrepeatable = report.unrepeatable;
  fallbacks.codec_fallbacks = report.counters.codec_fallbacks;
  fallbacks.departures = report.counters.departures;
  fallbacks.recipes_run_again = report.counters.recipes_run_again;
  if (const auto& kept = report.budget) {
    fallbacks.budget = {kept->steps, kept->exceeded, kept->reason, kept->uncertain,
                        kept->uncertain_reason};
  }
  return fallbacks;
}

reports::PassFallbacks no_fallbacks(const std::string& pass, const std::string& reason) {
  reports::PassFallbacks fallbacks;
  fallbacks.pass = pass;
  fallbacks.missing_reason = reason;
  return fallbacks;
}

reports::PassFallbacks training_fallbacks(const ModeSpec& mode,
                                          const memopt::PlannedModeReport& report,
                                          int64_t forwards) {
  if (report.missing_reason.empty() || forwards >= mode.forwards_until_steady) {
    return fallbacks_of("training", report);
  }
  return no_fallbacks("training", fmt::format("it had too few forward passes for a plan: {} ({})",
                                              forwards, report.missing_reason));
}

std::vector<reports::PassFallbacks> fallbacks_of_ranks(
    const std::vector<reports::RankRecord>& ranks) {
  std::vector<reports::PassFallbacks> all = ranks.front().fallbacks;
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    for (const reports::PassFallbacks& other : ranks[rank].fallbacks) {
      const auto same = std::find_if(all.begin(), all.end(),
                                     [&](const auto& one) { return one.pass == other.pass; });
      if (same != all.end()) join(*same, other, static_cast<int64_t>(rank));
    }
  }
  return all;
}

void set_fallbacks(reports::MemoryMode& to, const reports::PassFallbacks& fallbacks) {
  const auto known = std::find_if(to.fallbacks.begin(), to.fallbacks.end(),
                                  [&](const auto& one) { return one.pass == fallbacks.pass; });
  if (known == to.fallbacks.end()) {
    to.fallbacks.push_back(fallbacks);
  } else {
    *known = fallbacks;
  }
}

reports::ModeBudget budget_of(const ModeSpec& mode) {
  if (!mode.budget) return {};
  const bool all = mode.budget->target == memopt::BudgetTarget::kPeak;
  return {all ? "peak_bytes" : "peak_saved_bytes", mode.budget->bytes, mode.budget->error, {}};
}

reports::StepBytes step_bytes(const reports::MemorySection& memory) {
  if (!memory.measured) return {};
  return {positive(memory.peak_bytes), memory.saved_bytes, memory.peak_saved_bytes};
}

int64_t encoded_at_forward_end(const reports::MemorySection& memory) {
  int64_t most = 0;  // highest over micro-batches
  for (const reports::MemorySnapshot& snapshot : memory.boundaries) {
    const auto encoded = snapshot.by_category.find("encoded");
    if (encoded == snapshot.by_category.end() || !snapshot.at.starts_with("forward_end")) continue;
    most = std::max(most, encoded->second);
  }
  return most;
}

reports::Certificate certificate_of(const SideBySide& trained, bool lossless) {
  reports::Certificate certificate;
  certificate.steps = trained.compared;
  for (const StepDigests& step : trained.mode.digests)
    certificate.sha256.push_back(digest_of(step));
  for (const StepDigests& step : trained.none.digests) {
    certificate.reference_sha256.push_back(digest_of(step));
  }
  if (lossless) {
    std::tie(certificate.verdict, certificate.words) = judge(trained);
  } else {
    certificate.words = "Not applied: the mode is not lossless; see its gradient error.";
  }
  return certificate;
}

reports::Certificate certificate_of_ranks(const std::vector<reports::Certificate>& all) {
  using reports::Verdict;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Verdict verdict = all[rank].verdict;
    if (verdict == Verdict::kPass || verdict == Verdict::kNotApplied) continue;
    reports::Certificate first = all[rank];
    first.words = fmt::format("On rank {}: {}", rank, first.words);
    return first;
  }
  reports::Certificate own = all.front();
  if (all.size() > 1 && own.verdict == Verdict::kPass) {
    own.words += fmt::format(" The same holds on each of the {} ranks.", all.size());
  }
  return own;
}

GradientDifferences differences_of(const SideBySide& trained) {
  GradientDifferences differences;
  const auto& not_followed = trained.mode.not_followed;
  if (!not_followed.empty() && !not_followed.front().empty()) {
    differences.missing_reason = "the step did not follow a plan; " + not_followed.front();
    return differences;
  }
  const std::map<std::string, at::Tensor> exact(trained.none.gradients.begin(),
                                                trained.none.gradients.end());
  for (const auto& [name, gradient] : trained.mode.gradients) {
    const at::Tensor& reference = exact.at(name);
    differences.tensors.push_back(
        {name, squared_norm(gradient.to(at::kDouble) - reference.to(at::kDouble)),
         squared_norm(reference)});
  }
  return differences;
}

std::string text_of(const GradientDifferences& differences) {
  std::string text = reports::one_line(differences.missing_reason) + "\n";
  for (const auto& one : differences.tensors) {
    text += fmt::format("{} {} {}\n", one.name, one.difference, one.size);
  }
  return text;
}

std::vector<GradientDifferences> differences_from(const std::vector<std::string>& texts) {
  std::vector<GradientDifferences> all;
  for (const std::string& text : texts) {
    std::istringstream lines(text);
    GradientDifferences& differences = all.emplace_back();
    std::getline(lines, differences.missing_reason);
    if (!differences.missing_reason.empty() && all.size() > 1) {
      differences.missing_reason =
          fmt::format("on rank {}: {}", all.size() - 1, differences.missing_reason);
    }
    std::string difference;
    std::string size;
    for (std::string name; lines >> name >> difference >> size;) {
      differences.tensors.push_back({name, std::stod(difference), std::stod(size)});
    }
  }
  return all;
}

reports::GradientError gradient_error_of(const std::vector<GradientDifferences>& parts) {
  reports::GradientError error;
  double all = 0;
  double all_exact = 0;
  for (const GradientDifferences& part : parts) {
    if (error.missing_reason.empty()) error.missing_reason = part.missing_reason;
    for (const auto& [name, difference, size] : part.tensors) {
      error.tensors.push_back({name, relative(difference, size)});
      all += difference;
      all_exact += size;
    }
  }
  if (error.missing_reason.empty() && !(std::isfinite(all) && std::isfinite(all_exact))) {
    error.missing_reason = "a gradient was not finite";
  }
  if (error.missing_reason.empty()) {
    error.error_frac = relative(all, all_exact);
  } else {
    error.tensors.clear();
  }
  return error;
}

reports::Overhead overhead_of(const SideBySide& trained) {
  reports::Overhead overhead;
  overhead.step_s = trained.mode.step_s;
  overhead.reference_step_s = trained.none.step_s;
  const std::vector<double> ratios = reports::log_ratios(trained.none.step_s, trained.mode.step_s);
  overhead.frac = std::expm1(reports::hodges_lehmann(ratios));
  const reports::Interval interval = reports::bootstrap_hodges_lehmann(ratios);
  overhead.ci95 = reports::Interval{std::expm1(interval.low), std::expm1(interval.high)};
  overhead.noise_frac = excess(trained.none.step_s, trained.none_again.step_s);
  return overhead;
}

}  // namespace noisemark::suite
