#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "reports/render/check.h"
#include "reports/result/definition.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"
#include "reports/result/result_fields.h"

namespace noisemark::reports {
namespace {

using Problems = std::vector<std::string>;

void require(bool holds, Problems& problems, const std::string& words) {
  if (!holds) problems.push_back(words);
}

bool close(double a, double b) {
  constexpr double kRounding = 1e-9;
  return std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b));
}

void definition_problems(const Result& result, Problems& problems) {
  const Identity& id = result.identity;
  const std::string sha256 = sha256_of(result.definition);
  require(sha256 == id.definition_sha256, problems,
          "identity.definition_sha256 is not the SHA-256 of the definition (" + sha256 + ")");
  const DefinitionView definition = definition_of(result);
  require(definition.readable, problems, "definition is no JSON object");
  require(id.custom || id.overrides.empty(), problems,
          "identity.custom must be true where there are overrides");
  require(definition.benchmark_id.value_or(id.benchmark) == id.benchmark &&
              definition.benchmark_scale.value_or(id.scale) == id.scale,
          problems, "the definition is not that of " + id.benchmark + "@" + id.scale);
}

void declared_gate_problems(const Result& result, Problems& problems) {
  for (const DefinitionView::DeclaredGate& declared : definition_of(result).gates) {
    const auto gate = std::find_if(result.gates.begin(), result.gates.end(),
                                   [&](const Gate& one) { return one.name == declared.name; });
    require(gate != result.gates.end() && declared.bound == gate->bound &&
                declared.metric.value_or(gate->metric) == gate->metric &&
                gate->relation == (declared.at_most ? "at most" : "at least"),
            problems,
            "the definition's gate " + declared.name + " was not applied as it stands there");
    // Peers train without evaluating, so no gate can judge them.
    if (gate == result.gates.end() || !result.identity.is_own()) continue;
    const bool applied = gate->verdict != Verdict::kNotApplied;
    require(applied == declared.must_apply(result.identity), problems,
            fmt::format("the definition's gate {} was {}, against what is declared there",
                        declared.name, applied ? "applied" : "not applied"));
  }
}

void seed_problems(const Result& result, Problems& problems) {
  require(!result.seeds.streams.empty(), problems, "no seed of any stream is recorded");
  std::map<uint64_t, std::string> seen;
  for (const auto& [stream, seed] : result.seeds.streams) {
    const auto [other, fresh] = seen.emplace(seed, stream);
    require(fresh, problems,
            fmt::format("streams {} and {} share the seed {}", other->second, stream, seed));
  }
}

/// A loss is missing only of steps that loss scaling skipped. A run that failed has not counted
/// them.
void skipped_problems(const Result& result, Problems& problems) {
  const std::vector<double>& losses = result.samples.loss;
  const auto missing =
      std::count_if(losses.begin(), losses.end(), [](double loss) { return std::isnan(loss); });
  const double most = metric_value(result, kSkippedMetric).value_or(0);
  require(
      result.gates.empty() || static_cast<double>(missing) <= most, problems,
      fmt::format("samples.loss lacks {} values, loss scaling skipped {} steps", missing, most));
}

void sample_problems(const Result& result, Problems& problems) {
  const size_t n = result.samples.step_s.size();
  for (const json::SampleList& list : json::kSampleLists) {
    const size_t values = (result.samples.*list.values).size();
    require(values == 0 || values == n, problems,
            fmt::format("samples.{} has {} values, step_s has {}", list.key, values, n));
  }
  skipped_problems(result, problems);
  const auto taken = static_cast<int64_t>(n);
  const Protocol& protocol = result.protocol;
  require(taken <= protocol.steps, problems,
          fmt::format("{} step times for {} steps", taken, protocol.steps));
  const bool finished = result.exit.code == static_cast<int>(ExitCode::kPass);
  require(
      !finished || taken == protocol.steps || taken + protocol.resumed_at_step == protocol.steps,
      problems, fmt::format("a finished run has {} of {} step times", taken, protocol.steps));
  require(protocol.warmup_steps <= taken, problems, "warm-up is longer than the run");
}

void metric_problems(const Result& result, Problems& problems) {
  std::set<std::string> names;
  for (const Metric& metric : result.metrics) {
    require(names.insert(metric.name).second, problems, "metric " + metric.name + " twice");
    require(metric.value.has_value() == metric.missing_reason.empty(), problems,
            "metric " + metric.name + " needs a value or the reason why it has none");
    if (!metric.ci95) continue;
    require(metric.value && metric.ci95->low <= *metric.value && *metric.value <= metric.ci95->high,
            problems, "metric " + metric.name + " lies outside its interval");
  }
}

void snapshot_problems(const MemorySection& memory, const MemorySnapshot& shot,
                       Problems& problems) {
  int64_t sum = shot.unattributed_bytes;
  std::set<std::string> named;
  for (const auto& [category, bytes] : shot.by_category) {
    sum += bytes;
    named.insert(category);
    require(bytes >= 0, problems, fmt::format("at {} {} holds {} bytes", shot.at, category, bytes));
  }
  require(named == std::set<std::string>(memory.categories.begin(), memory.categories.end()),
          problems, "at " + shot.at + " the categories are not those of memory.categories");
  require(sum == shot.allocator_bytes, problems,
          fmt::format("at {} the owners and the unattributed sum to {} bytes, the allocator has {}",
                      shot.at, sum, shot.allocator_bytes));
}

void timeline_problems(const MemorySection& memory, Problems& problems) {
  const size_t known = problems.size();
  double before_s = 0;
  for (const MemoryPoint& point : memory.timeline) {
    const auto& bytes = point.by_category;
    require(bytes.size() == memory.categories.size() + 1, problems,
            "a point of memory.timeline has not one value per category and the unattributed");
    require(point.time_s >= before_s, problems, "memory.timeline runs backwards");
    require(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) <= memory.peak_bytes, problems,
            fmt::format("memory.timeline at {} s is above the peak", point.time_s));
    before_s = point.time_s;
    if (problems.size() > known) break;
  }
}

// Figures of an allocator that nobody listened to are whole, and all 0.
void heard_problems(const MemorySection& memory, int64_t parameters, Problems& problems) {
  if (parameters == 0) return;
  for (const MemorySnapshot& shot : memory.boundaries) {
    const auto weights = shot.by_category.find("weights");
    require(weights == shot.by_category.end() || weights->second > 0, problems,
            fmt::format("at {} the weights hold 0 bytes, the model has {} parameters", shot.at,
                        parameters));
  }
}

void closure_problems(const Result& result, Problems& problems) {
  const MemorySection& memory = result.memory;
  if (!memory.measured) {
    return require(!memory.missing_reason.empty(), problems,
                   "memory was not measured and no reason is given");
  }
  for (const MemorySnapshot& shot : memory.boundaries) {
    snapshot_problems(memory, shot, problems);
    require(shot.unattributed_bytes == 0, problems,
            fmt::format("at {} {} bytes have no owner", shot.at, shot.unattributed_bytes));
    require(shot.allocator_bytes <= memory.peak_bytes, problems,
            "at " + shot.at + " more is live than at the peak");
  }
  heard_problems(memory, result.utilization.parameters, problems);
  snapshot_problems(memory, memory.peak, problems);
  require(memory.peak.allocator_bytes == memory.peak_bytes, problems,
          fmt::format("memory.peak_bytes is {}, the peak's snapshot has {}", memory.peak_bytes,
                      memory.peak.allocator_bytes));
  require(
      memory.saved_bytes <= memory.peak_saved_bytes && memory.peak_saved_bytes <= memory.peak_bytes,
      problems, "saved_bytes, peak_saved_bytes and peak_bytes must not fall in this order");
  timeline_problems(memory, problems);
}

void certificate_problems(const MemoryMode& mode, Problems& problems) {
  const Certificate& proof = mode.certificate;
  const size_t n = proof.steps.size();
  require(proof.sha256.size() == n && proof.reference_sha256.size() == n, problems,
          "the certificate has not one digest for each of its steps");
  const bool same = n > 0 && proof.sha256 == proof.reference_sha256;
  require(proof.verdict != Verdict::kPass || (same && mode.lossless), problems,
          "the certificate passes, and the mode is lossy or its digests are not those of none");
  require(proof.verdict != Verdict::kFail || !same, problems,
          "the certificate fails, and its digests are those of none");
  require(!proof.words.empty(), problems, "the certificate says nothing");
  for (const PassFallbacks& pass : mode.fallbacks) {
    const bool made = pass.missing_reason.empty() && pass.plan_missing_reason.empty();
    require(proof.verdict != Verdict::kPass || made || pass.pass != "certificate", problems,
            "the certificate passes, and its pass was not made or ended without a plan");
  }
}

void memory_mode_problems(const Result& result, Problems& problems) {
  const MemoryMode& mode = result.memory_mode;
  if (!result.identity.has_mode()) {
    return require(!mode.measured, problems, "mode none has figures of a memory mode");
  }
  require(mode.measured || !mode.missing_reason.empty(), problems,
          "the memory mode was not measured and no reason is given");
  const bool budgeted = result.identity.has_budget();
  require(budgeted == mode.budget.bytes.has_value() && budgeted == !mode.budget.figure.empty(),
          problems, "a mode under a budget, and no other, needs its bytes and what they bound");
  for (const PassFallbacks& pass : mode.fallbacks) {
    require(!pass.budget || (budgeted && pass.budget->exceeded <= pass.budget->steps), problems,
            "a pass has steps of a budget that the mode has not, or more of them exceeded it");
  }
  const HostMemory& host = mode.host_memory;
  require(host.capacity_bytes || (host.refused_tensors == 0 && host.refused_bytes == 0), problems,
          "host memory that was not taken refused something");
  if (!mode.measured) return;
  certificate_problems(mode, problems);
  const Overhead& overhead = mode.overhead;
  require(overhead.frac.has_value() == overhead.missing_reason.empty(), problems,
          "the overhead needs a value or the reason why it has none");
  require(overhead.step_s.size() == overhead.reference_step_s.size(), problems,
          "the overhead has not one time of none for each of the mode");
}

void batch_fit_problems(const Result& result, Problems& problems) {
  const BatchFit& fit = result.batch_fit;
  require(fit.memory_bytes || (fit.batch == 0 && !fit.peak_bytes), problems,
          "there is a largest batch, and no memory that it is to fit");
  if (!fit.memory_bytes || !fit.missing_reason.empty()) return;
  require(fit.peak_bytes.has_value() == (fit.batch > 0), problems,
          "the largest batch that fits, and no other, needs its peak");
  require(!fit.peak_bytes || *fit.peak_bytes <= *fit.memory_bytes, problems,
          "the largest batch that fits does not fit");
  require(!fit.next_peak_bytes || *fit.next_peak_bytes > *fit.memory_bytes, problems,
          "the next larger batch fits too");
  require(fit.next_peak_bytes.has_value() == fit.next_words.empty(), problems,
          "the next larger batch needs a peak or the reason why it has none");
}

void utilization_problems(const Result& result, Problems& problems) {
  const Utilization& use = result.utilization;
  require(use.measured || !use.missing_reason.empty(), problems,
          "utilization was not measured and no reason is given");
  if (use.gemm_peak_flop_per_s > 0) {
    require(close(use.mfu_frac, use.achieved_flop_per_s / use.gemm_peak_flop_per_s), problems,
            "utilization.mfu_frac is not achieved / peak");
  }
  require(std::is_sorted(use.operators.begin(), use.operators.end(),
                         [](const auto& a, const auto& b) { return a.self_s > b.self_s; }),
          problems, "utilization.operators are not by falling self time");
  double share_frac = 0;
  for (const OperatorRow& row : use.operators) share_frac += row.share_frac;
  constexpr double kRounding = 1e-6;
  require(share_frac <= 1 + kRounding, problems, "the operators' shares sum to more than 1");
}

void column_problems(const DeviceColumn& column, Problems& problems) {
  const std::string name = "GPU column " + column.name;
  require(column.value.has_value() == column.missing_reason.empty(), problems,
          name + " needs a value or the reason why it has none");
  require(!column.source.empty(), problems, name + " does not say its source");
  require(column.readings > 0 || (!column.lowest && !column.highest), problems,
          name + " has a lowest or highest of no reading");
  if (!column.value) return;
  require(!column.lowest || !column.highest ||
              ((*column.lowest <= *column.value || close(*column.lowest, *column.value)) &&
               (*column.value <= *column.highest || close(*column.value, *column.highest))),
          problems, name + " lies outside its readings");
  require(!column.over_kernels || *column.over_kernels >= *column.value, problems,
          name + " is smaller while kernels ran than over all the time");
}

void training_memory_problems(const Result& result, Problems& problems) {
  const TrainingMemory& memory = result.memory.training;
  require(memory.repeated_steps <= result.protocol.steps, problems,
          fmt::format("memory.training.repeated_steps is {}, the pass has {} steps",
                      memory.repeated_steps, result.protocol.steps));
  require(memory.repeated_steps == 0 || result.identity.repeats_steps(), problems,
          "steps were repeated under a baseline that records none");
  require(memory.recording_bytes.has_value() || memory.repeated_steps == 0 ||
              !memory.missing_reason.empty(),
          problems, "a step was repeated from memory of which nothing is said");
  if (!memory.peak_reserved_bytes) return;
  require(memory.peak_allocated_bytes.value_or(0) <= *memory.peak_reserved_bytes, problems,
          "memory.training allocated more than was reserved");
  require(memory.recording_bytes.value_or(0) <= *memory.peak_reserved_bytes, problems,
          "memory.training.recording_bytes is more than was reserved");
}

void device_problems(const Result& result, Problems& problems) {
  const DeviceUse& use = result.utilization.device_use;
  const DeviceMemory& held = result.memory.device_memory;
  training_memory_problems(result, problems);
  require(use.measured || (use.columns.empty() && use.trace.empty()), problems,
          "the GPU was not measured and has columns or readings");
  require(std::is_sorted(use.trace.begin(), use.trace.end(),
                         [](const auto& a, const auto& b) { return a.at_s < b.at_s; }),
          problems, "the readings of the GPU run backwards");
  for (const DeviceColumn& column : use.columns) column_problems(column, problems);
  if (held.peak_allocated_bytes && held.peak_reserved_bytes) {
    require(held.fragmentation_bytes == *held.peak_reserved_bytes - *held.peak_allocated_bytes,
            problems,
            "memory.device_memory.fragmentation_bytes is not the difference of the peaks");
  }
  if (held.process_bytes && held.reserved_bytes && result.memory.outside_allocator_bytes) {
    require(*held.process_bytes - *held.reserved_bytes == *result.memory.outside_allocator_bytes,
            problems, "memory.outside_allocator_bytes is not the process less what is reserved");
  }
}

void convolution_problems(const Result& result, Problems& problems) {
  const ConvolutionKernels& run = result.utilization.convolutions;
  const ConvolutionWorkspace& scratch = result.memory.convolution_workspace;
  require(run.measured || run.kernels.empty(), problems,
          "the kernels of convolutions were not measured and are listed");
  require(std::is_sorted(run.kernels.begin(), run.kernels.end(),
                         [](const auto& a, const auto& b) { return a.time_s > b.time_s; }),
          problems, "utilization.convolutions.kernels are not by falling time");
  require(scratch.largest_bytes.has_value() == scratch.peak_bytes.has_value(), problems,
          "memory.convolution_workspace has one of its two figures");
  require(!scratch.largest_bytes || scratch.missing_reason.empty(), problems,
          "memory.convolution_workspace has its figures and a reason why it has none");
  if (scratch.largest_bytes && scratch.peak_bytes) {
    require(*scratch.largest_bytes <= *scratch.peak_bytes, problems,
            "a convolution had more scratch memory than the category workspace ever held");
  }
}

bool reaches(const Quality& quality) {
  return quality.target_loss &&
         std::any_of(quality.evaluations.begin(), quality.evaluations.end(),
                     [&](const auto& one) { return one.loss <= *quality.target_loss; });
}

void quality_problems(const Result& result, Problems& problems) {
  const Quality& quality = result.quality;
  int64_t before = -1;
  for (const Evaluation& one : quality.evaluations) {
    const std::string at = fmt::format("the evaluation at step {}", one.step);
    require(one.step > before, problems, at + " is out of order");
    before = one.step;
    const size_t n = one.timesteps.size();
    require(one.per_timestep.size() == n, problems, at + " has not one loss per timestep");
    require(one.optimal_per_timestep.empty() || one.optimal_per_timestep.size() == n, problems,
            at + " has not one optimal loss per timestep");
    if (one.per_timestep.empty()) continue;
    const auto [low, high] = std::minmax_element(one.per_timestep.begin(), one.per_timestep.end());
    require((*low <= one.loss || close(*low, one.loss)) &&
                (one.loss <= *high || close(*high, one.loss)),
            problems, at + " has a loss outside of its losses per timestep");
  }
  require(quality.time_to_quality_s.has_value() == quality.samples_to_quality.has_value(), problems,
          "time_to_quality_s and samples_to_quality must be there together");
  require(quality.time_to_quality_s.has_value() == reaches(quality), problems,
          "time_to_quality_s must be there when an evaluation reaches the target, and only then");
  require(quality.time_to_quality_s || !quality.missing_reason.empty(), problems,
          "no time to quality and no reason for it");
}

void gate_problems(const Result& result, Problems& problems) {
  bool failed = false;
  for (const Gate& gate : result.gates) {
    failed = failed || gate.verdict == Verdict::kFail;
    require(!gate.words.empty(), problems, "gate " + gate.name + " has no words");
    if (gate.verdict == Verdict::kNotApplied) continue;
    require(gate.value || gate.verdict == Verdict::kFail, problems,
            "gate " + gate.name + " passes without a value");
    if (!gate.value) continue;
    const bool holds = satisfies(*gate.value, gate.relation, gate.bound);
    require(holds == (gate.verdict == Verdict::kPass), problems,
            "gate " + gate.name + ": the verdict is not what its value and bound say");
  }
  require(!failed || result.exit.code != static_cast<int>(ExitCode::kPass), problems,
          "a gate failed and the exit code is 0");
  require(failed || result.exit.code != static_cast<int>(ExitCode::kFailed), problems,
          "the exit code is 1 and no gate failed");
}

void precision_problems(const Result& result, Problems& problems) {
  const MixedPrecision& mixed = result.mixed_precision;
  require(std::is_sorted(mixed.wide.begin(), mixed.wide.end(),
                         [](const WideOperator& a, const WideOperator& b) {
                           return a.result_bytes > b.result_bytes;
                         }),
          problems, "mixed_precision.wide are not by falling bytes");
  int64_t calls = 0;
  for (const WideOperator& one : mixed.wide) calls += one.calls;
  require(calls <= mixed.operators, problems,
          "more operators stayed in float32 than mixed_precision.operators are");
  require(mixed.measured || mixed.type.empty() || !mixed.missing_reason.empty(), problems,
          "what stayed in float32 was not measured and no reason is given");
}

void provenance_problems(const Result& result, Problems& problems) {
  const Provenance& from = result.provenance;
  require(from.git_dirty == !from.git_diff_sha256.empty(), problems,
          "provenance.git_diff_sha256 must be there when the tree was dirty, and only then");
  const bool all = std::all_of(from.data.begin(), from.data.end(),
                               [](const DataFile& file) { return file.verified; });
  require(result.identity.data != "official" || (all && !from.data.empty()), problems,
          "the data is called official, and not every file of it has the locked checksum");
}

void rank_problems(const Result& result, Problems& problems) {
  const auto found = static_cast<int64_t>(result.ranks.size());
  const bool none = found == 0 && result.exit.code != static_cast<int>(ExitCode::kPass);
  require(found == result.identity.ranks.value_or(0) || none, problems,
          fmt::format("ranks has {} rows, identity.ranks is {}", found,
                      result.identity.ranks.value_or(0)));
  require(result.identity.ranks.has_value() == !result.identity.backend.empty(), problems,
          "identity.backend must be there where there are ranks, and only then");
  const Identity& id = result.identity;
  require(id.ranks.has_value() || (id.reduction.empty() && id.shards.empty()), problems,
          "identity.reduction and identity.shards must be there only where there are ranks");
  require(id.pipeline.empty() != id.micro_batches.has_value(), problems,
          "identity.pipeline and identity.micro_batches must be there together");
  require(id.ranks.has_value() || id.pipeline.empty(), problems,
          "identity.pipeline must be there only where there are ranks");
  for (int64_t number = 0; number < found; ++number) {
    const RankRecord& record = result.ranks[static_cast<size_t>(number)];
    require(record.rank == number, problems, "the rows of ranks are not by number");
    // Others than rank 0 know only of the steps since a resumption.
    const auto before = number > 0 ? static_cast<size_t>(result.protocol.resumed_at_step) : 0;
    const size_t steps = record.samples.step_s.size();
    const size_t all = result.samples.step_s.size();
    require(steps == all || steps + before == all, problems,
            fmt::format("rank {} made other steps than rank 0", record.rank));
    require(record.exchanged_bytes == record.expected_bytes, problems,
            fmt::format("rank {} exchanged {} bytes in a step, by formula {}", record.rank,
                        record.exchanged_bytes.value_or(0), record.expected_bytes.value_or(0)));
    for (const MemorySnapshot& shot : record.boundaries) {
      snapshot_problems(result.memory, shot, problems);
    }
  }
}

struct Rule {
  std::string_view name;
  void (*add_problems)(const Result&, Problems&);
  bool whole = false;  ///< holds only for a run that did not end in an error
};

constexpr std::array kRules{Rule{"definition", definition_problems},
                            Rule{"seeds", seed_problems},
                            Rule{"samples", sample_problems},
                            Rule{"metrics", metric_problems},
                            Rule{"closure", closure_problems, true},
                            Rule{"ranks", rank_problems, true},
                            Rule{"memory mode", memory_mode_problems, true},
                            Rule{"largest batch", batch_fit_problems, true},
                            Rule{"utilization", utilization_problems, true},
                            Rule{"mixed precision", precision_problems, true},
                            Rule{"GPU", device_problems, true},
                            Rule{"convolutions", convolution_problems, true},
                            Rule{"quality", quality_problems, true},
                            Rule{"gates", gate_problems},
                            Rule{"gates", declared_gate_problems, true},
                            Rule{"provenance", provenance_problems}};

}  // namespace

std::vector<Finding> check_values(const Result& result, const std::string& file) {
  std::vector<Finding> findings;
  const int code = result.exit.code;
  const bool whole = code <= static_cast<int>(ExitCode::kFailed) ||
                     code == static_cast<int>(ExitCode::kInterrupted);
  for (const Rule& rule : kRules) {
    if (rule.whole && !whole) continue;
    Problems problems;
    rule.add_problems(result, problems);
    for (const std::string& words : problems) {
      findings.push_back({file, std::string(rule.name), words});
    }
  }
  return findings;
}

}  // namespace noisemark::reports
