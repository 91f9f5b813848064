#include "suite/run/single_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/folder.h"
#include "reports/base/sha256.h"
#include "reports/base/streams.h"
#include "reports/render/run_folder.h"
#include "reports/result/gate.h"
#include "reports/result/json_io.h"
#include "reports/result/metrics.h"
#include "reports/result/warmup.h"
#include "suite/config/lock.h"
#include "suite/environment/child.h"
#include "suite/environment/environment.h"
#include "suite/io/tensors.h"
#include "suite/probes/phase_timer.h"
#include "suite/random/counter_rng.h"
#include "suite/run/folder/event_log.h"
#include "suite/run/folder/output_folder.h"
#include "suite/run/passes/failure.h"
#include "suite/run/passes/memory_pass.h"
#include "suite/run/passes/mode_figures.h"
#include "suite/run/passes/owners.h"
#include "suite/run/passes/profile_pass.h"
#include "suite/run/passes/side_by_side.h"
#include "suite/run/passes/training_pass.h"
#include "suite/run/passes/watch.h"
#include "suite/run/spec/plan.h"
#include "suite/sampling/folder.h"

namespace noisemark::suite {
namespace {

const MeasureConfig& measure_of(const RunState& run) {
  return run.plan.spec.definition.measure;
}

bool has_mode(const RunState& run) {
  return !run.plan.spec.mode.is_none();
}

bool training_ended_early(const RunState& run) {
  return !run.interrupted.empty() || !run.training.finiteness.finite;
}

void leave_fallbacks(RunState& run, const std::string& pass, const std::string& reason) {
  if (has_mode(run)) set_fallbacks(run.result.memory_mode, no_fallbacks(pass, reason));
}

// The memory pass fills `memory`, and under a mode what it planned and how much mode "none" holds.

bool measures_memory(const RunState& run) {
  return run.options.memory && measure_of(run).memory_steps > 0;
}

void leave_memory(RunState& run) {
  std::string& reason = run.result.memory.missing_reason;
  reason = run.options.memory ? "the memory pass did not end"
                              : "the memory pass was left out (--no-memory)";
  if (measure_of(run).memory_steps == 0) {
    reason = "the memory pass was left out (measure.memory_steps=0)";
  }
  leave_fallbacks(run, "memory", reason);
}

void measure_memory(RunState& run) {
  reports::MemoryMode& mode = run.result.memory_mode;
  const std::string snapshot = run.options.memory_snapshot ? run.folder.memory_snapshot() : "";
  take_memory_section(
      run, memory_pass(run.session, run.watch, has_mode(run) ? &mode : nullptr, snapshot));
  if (has_mode(run)) {
    SessionOptions plain = run.session;
    plain.spec.mode = {};
    plain.spec.baseline = {};
    mode.plain = step_bytes(memory_pass(plain, run.watch));
    mode.encoded_bytes = encoded_at_forward_end(run.result.memory);
  }
  run.result.protocol.memory_steps = measure_of(run).memory_steps;
}

// The mode's section is described from its name, and the certificate pass trains it beside "none".

constexpr const char* kNoCertificate = "it was not trained beside none (--no-certificate)";

std::string why_no_certificate(const RunState& run) {
  return run.options.certificate ? "the certificate pass did not end" : kNoCertificate;
}

void leave_mode(RunState& run) {
  run.result.memory_mode.missing_reason =
      has_mode(run) ? "its passes did not end" : "mode none keeps what autograd keeps";
  run.result.memory_mode.budget = budget_of(run.plan.spec.mode);
}

void describe_mode(RunState& run) {
  reports::MemoryMode& mode = run.result.memory_mode;
  mode.lossless = run.plan.spec.mode.lossless;
  RunSpec reference = run.plan.spec;
  reference.mode = {};
  mode.reference = variant_label(reference);
  const std::string missing = why_no_certificate(run);
  mode.overhead.missing_reason = mode.gradient_error.missing_reason = missing;
  mode.certificate.words = "Not applied: " + missing + ".";
  mode.measured = true;
  mode.missing_reason.clear();
  if (!run.result.memory.measured) mode.plan_missing_reason = run.result.memory.missing_reason;
}

bool trains_beside_none(const RunState& run) {
  return has_mode(run) && run.options.certificate;
}

void leave_certificate(RunState& run) {
  leave_fallbacks(run, "certificate", why_no_certificate(run));
}

std::vector<reports::Certificate> certificates_of(Group& group, const reports::Certificate& own) {
  std::vector<reports::Certificate> all;
  for (const std::string& text : group.exchange(reports::to_json(own))) {
    all.push_back(reports::part_from_json<reports::Certificate>(text, "what a rank handed over"));
  }
  return all;
}

void train_beside_none(RunState& run) {
  reports::MemoryMode& mode = run.result.memory_mode;
  const SideBySide trained = train_side_by_side(run.session, run.watch);
  mode.overhead = overhead_of(trained);
  mode.certificate = certificate_of(trained, mode.lossless);
  std::vector<GradientDifferences> differences{differences_of(trained)};
  if (Group* group = run.session.group.get(); group != nullptr) {
    mode.certificate = certificate_of_ranks(certificates_of(*group, mode.certificate));
    // Ranks that share a batch have the same gradients, the means over all of them.
    const bool same = run.plan.spec.pipeline.empty() && group->rank().rank > 0;
    if (same) differences.front().tensors.clear();
    differences = differences_from(group->exchange(text_of(differences.front())));
  }
  mode.gradient_error = gradient_error_of(differences);
  set_fallbacks(mode, fallbacks_of("certificate", trained.mode_report));
}

// The search for the largest batch fills `batch_fit`.

bool looks_for_a_batch(const RunState& run) {
  return run.options.fit_memory_bytes.has_value();
}

void leave_batch_fit(RunState& run) {
  if (!looks_for_a_batch(run)) return;
  run.result.batch_fit.memory_bytes = run.options.fit_memory_bytes;
  run.result.batch_fit.missing_reason = "the search for the largest batch did not end";
}

void look_for_a_batch(RunState& run) {
  run.result.batch_fit = largest_batch(run.session, *run.options.fit_memory_bytes, run.watch);
}

// Training fills the samples, quality, determinism and `memory.training`.

void leave_training(RunState& run) {
  run.result.quality.missing_reason = "training did not begin";
  run.result.memory.training.missing_reason = run.result.quality.missing_reason;
  leave_fallbacks(run, "training", run.result.quality.missing_reason);
}

TrainingPassOptions training_options(RunState& run) {
  TrainingPassOptions options;
  options.session = run.session;
  options.session.timed = true;
  options.events = &run.events;
  options.checkpoint_key = run_key(run.plan, run.session.dataset->files());
  options.checkpoint_every = run.options.checkpoint_every;
  options.resume = run.options.resume;
  if (!run.writes()) return options;
  options.weights_path = run.folder.weights();
  options.average_path = run.folder.average();
  options.checkpoint_path = run.folder.checkpoint();
  return options;
}

void take_outcome(RunState& run) {
  const TrainingOutcome& outcome = run.training;
  reports::Result& result = run.result;
  result.samples = outcome.progress.samples;
  result.quality = outcome.quality;
  result.determinism = outcome.determinism;
  result.memory.training = outcome.memory;
  result.provenance.init_weights_sha256 = outcome.progress.init_weights_sha256;
  result.utilization.parameters = outcome.parameters;
  result.mixed_precision.loss_scale = outcome.loss_scale;
  reports::Protocol& protocol = result.protocol;
  protocol.steps = static_cast<int64_t>(result.samples.step_s.size());
  protocol.resumed_at_step = outcome.resumed_at_step;
  if (outcome.resumed_at_step > 0) {
    run.energy = {std::nullopt, "the run was resumed: another process used a part of it", ""};
  }
  if (has_mode(run)) {
    const int64_t steps = protocol.steps - protocol.resumed_at_step;
    set_fallbacks(result.memory_mode, training_fallbacks(run.plan.spec.mode, outcome.mode,
                                                         steps * run.plan.spec.watched_of_step()));
  }
  const reports::Warmup warmup = reports::detect_warmup(result.samples.step_s);
  protocol.warmup_steps = warmup.steps;
  protocol.warmup_stable = warmup.stable;
  protocol.warmup_reason = warmup.reason;
}

void train(RunState& run) {
  const int64_t steps = run.plan.spec.definition.train.steps;
  const c10::Device device = run.plan.spec.device;
  run.watch.before_step("training", 0, steps);
  const TrainingPassOptions options = training_options(run);
  const EnergyReading before = energy_of(device);
  const auto began = std::chrono::steady_clock::now();
  run.training = training_pass(options, run.watch);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  run.energy = energy_used(before, energy_of(device), took.count());
  add_changes(run.result.environment, machine_state(device));
  take_outcome(run);
  if (run.training.error) std::rethrow_exception(run.training.error);
  if (run.training.interrupted) {
    run.interrupted = fmt::format("interrupted {}after step {} of {}",
                                  run.training.in_evaluation ? "in the evaluation " : "",
                                  run.result.protocol.steps, steps);
  }
  if (!run.writes()) return;
  std::vector<reports::Artifact>& artifacts = run.result.artifacts;
  artifacts.push_back({"weights.safetensors", reports::sha256_of_file(run.folder.weights())});
  if (!run.result.determinism.ema_sha256.empty()) {
    artifacts.push_back({"ema.safetensors", reports::sha256_of_file(run.folder.average())});
  }
}

// Every rank hands the others what it found.

bool is_one_of_several(const RunState& run) {
  return run.session.group != nullptr;
}

void describe_stage(const std::vector<Pipeline::Stage>& stages, reports::RankRecord& record) {
  if (stages.empty()) return;
  const Pipeline::Stage& stage = stages[static_cast<size_t>(record.rank)];
  record.first_block = stage.first;
  record.last_block = stage.last;
  record.blocks = stage.parts;
  record.blocks_s = stage.part_s;
}

void hand_over(RunState& run) {
  reports::RankRecord record;
  record.rank = run.session.group->rank().rank;
  record.samples = run.result.samples;
  record.boundaries = run.result.memory.boundaries;
  record.peak = run.result.memory.peak;
  if (run.result.memory.measured) record.peak_saved_bytes = run.result.memory.peak_saved_bytes;
  record.leaked_bytes = run.result.memory.leaked_bytes;
  record.noise_sha256 = run.training.noise_sha256;
  record.local_rank = run.session.group->rank().local_rank;
  if (!record.samples.step_s.empty()) {
    record.exchanges = run.training.exchanged.operations;
    record.exchanged_bytes = run.training.exchanged.bytes;
    record.expected_bytes = run.training.expected_bytes;
  }
  record.determinism = run.result.determinism;
  record.fallbacks = run.result.memory_mode.fallbacks;
  describe_stage(run.training.stages, record);
  for (const std::string& text : run.session.group->exchange(reports::to_json(record))) {
    run.result.ranks.push_back(
        reports::part_from_json<reports::RankRecord>(text, "what a rank handed over"));
  }
  run.result.memory_mode.fallbacks = fallbacks_of_ranks(run.result.ranks);
}

// Sampling is outside the timed pass and takes the weights as they were written.

bool samples(const RunState& run) {
  return run.writes() && run.plan.spec.definition.sample.sampler != "none" &&
         !training_ended_early(run);
}

void sample(RunState& run) {
  const Definition& definition = run.plan.spec.definition;
  SamplingPassOptions options;
  options.spec = run.plan.spec;
  options.sample = definition.sample;
  options.seed = run.plan.seed;
  options.weights = run.folder.path.string();
  options.batch = definition.train.batch / definition.train.accumulation;
  options.out = run.folder.samples();
  prepare_sampling_folder(options.out, /*force=*/true);
  (void)sampling_pass(options, run.watch);
  for (const char* name : kSamplingFiles) {
    run.result.artifacts.push_back(
        {std::string("samples/") + name, reports::sha256_of_file(options.out / name)});
  }
}

// The profile pass fills `utilization` and what autocast let stay in float32.

bool profiles(const RunState& run) {
  return !is_one_of_several(run) && run.options.profile && measure_of(run).profile_steps > 0 &&
         !training_ended_early(run);
}

void give_no_profile(RunState& run, const std::string& reason) {
  reports::Result& result = run.result;
  result.utilization.missing_reason = reason;
  if (run.plan.spec.device.is_cuda()) result.utilization.device_use.missing_reason = reason;
  if (run.plan.spec.precision.autocast) result.mixed_precision.missing_reason = reason;
}

void leave_profile(RunState& run) {
  std::string reason = "the profile pass did not begin";
  if (training_ended_early(run)) reason = "it is made after training, which did not end";
  if (measure_of(run).profile_steps == 0) {
    reason = "the profile pass was left out (measure.profile_steps=0)";
  }
  if (is_one_of_several(run)) reason = "the profile pass is made of one process alone";
  if (!run.options.profile) reason = "the profile pass was left out (--no-profile)";
  give_no_profile(run, reason);
}

void profile(RunState& run) {
  give_no_profile(run, "the profile pass did not end");
  reports::Result& result = run.result;
  reports::Utilization measured = profile_pass(run.session, run.watch, &result.mixed_precision);
  measured.parameters = result.utilization.parameters;
  result.utilization = std::move(measured);
  result.protocol.profile_steps = measure_of(run).profile_steps;
  if (const auto rate = reports::images_per_second(result)) add_achieved(result.utilization, *rate);
}

bool always(const RunState& /*run*/) {
  return true;
}

constexpr std::array<RunPass, 8> kPasses{{
    {"memory_pass", measures_memory, leave_memory, measure_memory},
    {"", has_mode, leave_mode, describe_mode},
    {"certificate_pass", trains_beside_none, leave_certificate, train_beside_none},
    {"fit_pass", looks_for_a_batch, leave_batch_fit, look_for_a_batch},
    {"", always, leave_training, train},
    {"", is_one_of_several, nullptr, hand_over},
    {"", samples, nullptr, sample},
    {"profile_pass", profiles, leave_profile, profile},
}};

void leave_empty(const RunPass& pass, RunState& run) {
  if (pass.leave_empty != nullptr) pass.leave_empty(run);
}

void make_pass(const RunPass& pass, RunState& run) {
  if (!pass.applies(run)) return leave_empty(pass, run);
  if (!pass.event.empty()) run.events.pass_start(std::string(pass.event));
  pass.make(run);
  if (!pass.event.empty()) run.events.pass_stop(std::string(pass.event));
}

/// "memory pass" of the event's key "memory_pass".
std::string words_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

}  // namespace

RunState::RunState(const RunOptions& options, const PlannedRun& plan, const SessionOptions& session,
                   const OutputFolder& folder, const PassWatch& watch, EventLog& events)
    : options(options),
      plan(plan),
      session(session),
      folder(folder),
      watch(watch),
      events(events) {}

std::span<const RunPass> run_passes() {
  return kPasses;
}

void leave_all_empty(RunState& run) {
  for (const RunPass& pass : kPasses) leave_empty(pass, run);
}

void make_passes(RunState& run) {
  run.events.init_start(run.plan.spec.definition, run.plan.seed);
  try {
    for (const RunPass& pass : kPasses) make_pass(pass, run);
  } catch (const Interrupted& error) {
    run.interrupted = error.what();
  } catch (const NonFinite& error) {
    const std::string pass = words_of(run.events.pass_abort());
    run.training.finiteness = {
        .finite = false,
        .first_bad = fmt::format("{} at step {} of the {}", error.tensor(), error.step(), pass)};
  }
}

void take_memory_section(RunState& run, reports::MemorySection section) {
  section.training = std::move(run.result.memory.training);
  run.result.memory = std::move(section);
}

namespace {

using reports::Result;

reports::Seeds seeds_of(uint64_t base, const Definition& definition) {
  reports::Seeds seeds;
  seeds.base = base;
  seeds.streams["init"] = base;  // torch's generator takes it as it is, so that peers can repeat it
  for (const Stream stream : {Stream::kOrder, Stream::kFlip, Stream::kTimestep, Stream::kNoise,
                              Stream::kDropout, Stream::kEvalNoise}) {
    seeds.streams[std::string(stream_name(stream))] = derive_seed(base, stream, 0);
  }
  if (definition.sample.sampler != "none") {
    seeds.streams[std::string(stream_name(Stream::kSampler))] =
        derive_seed(base, Stream::kSampler, 0);
  }
  return seeds;
}

std::vector<reports::GateRule> gate_rules(const Definition& definition) {
  std::vector<reports::GateRule> rules;
  for (const GateConfig& gate : definition.gates) {
    rules.push_back({gate.name, gate.metric, gate.relation, gate.bound, gate.precisions});
  }
  return rules;
}

/// One run from the first event to the verdict.
class SingleRun {
 public:
  SingleRun(const RunOptions& options, const PlannedRun& plan, const SessionOptions& session,
            const OutputFolder& folder, const InterruptGuard& interrupt)
      : line_(plan.id + " " + variant_label(plan.spec), plan.spec.definition.train.steps,
              plan.spec.definition.train.batch),
        watch_{line_, interrupt, session.group.get()},
        events_(folder.events(), options.resume),
        run_{options, plan, session, folder, watch_, events_},
        report_folder_(folder.final_path) {
    describe();
    leave_all_empty(run_);
  }

  /// The failure that ends it early is written into the result before it is thrown on.
  ExitCode execute() {
    tell_run(result_.run_id);
    try {
      make_passes(run_);
      judge();
      write();
    } catch (const std::exception& error) {
      const auto* full = dynamic_cast<const OutOfMemory*>(&error);
      if (full != nullptr && full->section()) take_memory_section(run_, *full->section());
      write_failed(failure_of(error));
      throw;
    }
    return finish();
  }

 private:
  void describe() {
    const RunSpec& spec = run_.plan.spec;
    const Definition& definition = spec.definition;
    const SessionOptions& session = run_.session;
    const bool pictures = session.dataset->standing() != "generated";
    result_ =
        new_result(run_.options.argv, pictures ? run_.options.data : "", spec.threads, spec.ranks);
    result_.title = definition.title;
    if (const std::string broken = fault_words(session.fault); !broken.empty()) {
      result_.title += ", broken on purpose: " + broken;
    }
    result_.definition = canonical_json(definition);
    result_.seeds = seeds_of(run_.plan.seed, definition);
    result_.identity = identity_of(run_.plan, *session.dataset);
    if (session.group) {
      result_.identity.ranks = session.group->rank().ranks;
      result_.identity.backend = session.group->backend();
    }
    result_.provenance.data = session.dataset->files();
    describe_machine(spec.device, result_);
    reports::Protocol& protocol = result_.protocol;
    protocol.batch = definition.train.batch;
    protocol.accumulation = definition.train.accumulation;
    protocol.deterministic = spec.deterministic;
    protocol.loader_threads = session.loader_threads;
    if (spec.precision.autocast) {
      result_.mixed_precision.type = dtype_name(*spec.precision.autocast);
    }
  }

  /// The metrics that no section of the result holds.
  [[nodiscard]] std::vector<reports::Metric> measured() const {
    std::vector<reports::Metric> all = {cpu_metric(run_.training.processor_s, result_),
                                        energy_metric(run_.energy)};
    if (const auto steps = run_.training.skipped_steps) {
      all.push_back(reports::metric_named("skipped_steps", {static_cast<double>(*steps)}));
    }
    return all;
  }

  void judge() {
    const Definition& definition = run_.plan.spec.definition;
    result_.metrics = reports::derive_metrics(result_, measured());
    std::vector<reports::GateRule> rules = gate_rules(definition);
    const reports::MemoryMode& mode = result_.memory_mode;
    if (mode.measured && !mode.lossless && run_.options.certificate) {
      rules.push_back(reports::gradient_error_rule(gradient_bound(run_.plan.spec)));
    }
    result_.gates = reports::evaluate_gates(result_, rules, run_.training.finiteness);
    result_.exit = reports::exit_of(result_.gates, result_.identity.custom);
    if (!run_.interrupted.empty()) {
      result_.exit = {static_cast<int>(ExitCode::kInterrupted),
                      error_status(ExitCode::kInterrupted),
                      {run_.interrupted}};
    }
    if (definition.unlocked) result_.exit.reasons.push_back(unlocked_words(definition));
  }

  /// No gate is judged that was not: what was measured is not what the definition asks for. Throws
  /// nothing, so that the failure itself is what the user hears of.
  void write_failed(const Failure& failure) {
    line_.clear();
    try {
      result_.exit = {static_cast<int>(failure.code), failure.status, {failure.reason}};
      if (failure.code == ExitCode::kOutOfMemory && result_.memory.measured) {
        result_.exit.reasons.push_back("at the peak of the memory pass: " +
                                       holders(result_.memory));
      }
      if (result_.gates.empty()) result_.metrics = reports::derive_metrics(result_);
      write_what_fits();
      place();
    } catch (const std::exception& other) {
      reports::say_on_stderr("no result was written: " + failure_of(other).message);
      return;
    }
    (void)told();
  }

  /// Puts the run in place, but not over one that came to its last step where this one did not.
  void place() {
    if (reports::came_to_its_last_step(result_) || !replaces_run_to_keep(run_.folder)) {
      return put_in_place(run_.folder);
    }
    report_folder_ = run_.folder.path;
    line_.clear();
    reports::say_on_stderr(
        fmt::format("--force: {} keeps the earlier result, and {} has that of the run that {}: "
                    "{}--force begins anew",
                    run_.folder.final_path.string(), report_folder_.string(),
                    !run_.interrupted.empty()       ? "was interrupted"
                    : reports::is_finished(result_) ? "left the finite numbers"
                                                    : "failed",
                    reports::is_finished(result_) ? "" : "--resume continues it, "));
  }

  void write() {
    for (const std::string& file : {run_.folder.events(), run_.folder.memory_snapshot()}) {
      const std::string name = std::filesystem::path(file).filename().string();
      std::erase_if(result_.artifacts, [&](const auto& one) { return one.path == name; });
      if (!std::filesystem::exists(file)) continue;
      result_.artifacts.push_back({name, reports::sha256_of_file(file)});
    }
    reports::write_run_folder(run_.folder.path, result_);
  }

  void write_what_fits() {
    try {
      write();
    } catch (const Error&) {
      reports::write_result_alone(run_.folder.path, result_);
    }
  }

  ExitCode finish() {
    place();
    line_.clear();
    const ExitCode code = static_cast<ExitCode>(result_.exit.code);
    // The command that makes several runs says how they are continued.
    if (!run_.interrupted.empty() && report_folder_ == run_.folder.final_path &&
        !Cause::is_awaited()) {
      const bool rounds = !run_.plan.spec.mode.lossless;  // then no checkpoint is continued
      reports::say_on_stderr("interrupted; " + ways_on(report_folder_, !rounds));
    }
    return told() || code != ExitCode::kPass ? code : ExitCode::kCannotWrite;
  }

  /// Says the verdict. The result stands in its folder by now, so that a standard output which
  /// takes nothing costs no more than its exit code. Returns whether it was taken.
  [[nodiscard]] bool told() const {
    if (!run_.options.verdict) return true;
    try {
      reports::print_out(verdict_text(result_, report_folder_));
      return true;
    } catch (const Error& error) {
      reports::say_on_stderr(
          fmt::format("{}; the result is in {}", error.what(), report_folder_.string()));
      return false;
    }
  }

  Progress line_;
  PassWatch watch_;
  EventLog events_;
  RunState run_;
  Result& result_ = run_.result;
  std::filesystem::path report_folder_;  ///< folder of its files at the end
};

ExistingRun existing_run(const RunOptions& options) {
  if (options.resume) return ExistingRun::kResume;
  return options.force ? ExistingRun::kReplace : ExistingRun::kRefuse;
}

/// Requires that whatever would make other work or other passes of another rank is the same there.
void require_same_work(Group& group, const RunOptions& options, const PlannedRun& plan,
                       const SessionOptions& session) {
  Result own;
  describe_machine(plan.spec.device, own);
  const CheckpointKey key = run_key(plan, session.dataset->files());
  group.require_equal("program, SHA-256", own.provenance.binary_sha256);
  group.require_equal("LibTorch", own.identity.software["libtorch"]);
  group.require_equal("definition, SHA-256", key.definition_sha256);
  group.require_equal("execution", key.variant);
  group.require_equal("data, SHA-256", key.data);
  group.require_equal(
      "passes",
      fmt::format("memory {}, certificate {}, checkpoints {}, resume {}, shares {}, "
                  "pipeline {} of {}",
                  options.memory, options.certificate, options.checkpoint_every, options.resume,
                  options.shard_optimizer, options.pipeline, plan.spec.micro_batches));
}

/// A resumed pipeline is divided as it was. Rank 0 reads how; `checkpoint` is empty on the others,
/// and where the run begins.
void keep_division(const SessionOptions& session, const std::string& checkpoint) {
  if (!session.group || session.spec.pipeline.empty()) return;
  const Division own = checkpoint.empty() ? Division{} : division_in_checkpoint(checkpoint);
  *session.division = division_from(session.group->exchange(text_of(own)).front());
}

/// Rank 0 finds out whether there is anything left to do, and tells the others.
bool tell_whether_more(const std::shared_ptr<Group>& group, bool more) {
  return group ? !group->exchange(more ? "more" : "").front().empty() : more;
}

}  // namespace

void run_other_rank(RunOptions options, const PlannedRun& plan,
                    const std::shared_ptr<Group>& group) {
  options.verdict = options.memory_snapshot = false;
  configure_process(plan.spec);
  SessionOptions session = session_options(options, plan);
  session.group = group;
  require_same_work(*group, options, plan, session);
  if (options.resume) {
    if (!tell_whether_more(group, true)) return;
    keep_division(session, "");
  }
  const InterruptGuard interrupt;
  Progress silent("", 0, 0);
  EventLog no_events;
  const OutputFolder no_folder;
  const PassWatch watch{silent, interrupt, group.get()};
  RunState run{options, plan, session, no_folder, watch, no_events};
  leave_all_empty(run);
  make_passes(run);
}

ExitCode run_single(const RunOptions& options, const PlannedRun& plan,
                    const std::filesystem::path& out, const Fault& fault,
                    const std::shared_ptr<Group>& group) {
  if (options.memory_snapshot && !options.memory) {
    throw bad_input("--memory-snapshot", "", "--no-memory", "with the memory pass, which it is of");
  }
  if (options.fit_memory_bytes) require_countable_batch(plan.spec);
  configure_process(plan.spec);
  // A run that cannot begin is refused before anything is touched.
  SessionOptions session = session_options(options, plan);
  session.fault = fault;
  CheckpointKey key = run_key(plan, session.dataset->files());
  if (group) require_same_work(*group, options, plan, session);
  if (!options.init_weights.empty()) {
    key.init_weights_sha256 = tensors_sha256(make_session(session).trainer->weights());
  }
  session.group = group;
  const reports::FolderLock lock(out);
  const OutputFolder folder = prepare_output_folder(out, existing_run(options));
  if (options.resume) {
    const auto earlier = earlier_result(folder.path, key);
    if (earlier && reports::is_finished(*earlier)) {
      (void)tell_whether_more(group, false);
      const bool stays = !reports::came_to_its_last_step(*earlier) && replaces_run_to_keep(folder);
      if (!stays) put_in_place(folder);
      tell_run(earlier->run_id);
      return leave_finished(*earlier, stays ? folder.path : folder.final_path);
    }
    const bool continues = std::filesystem::exists(folder.checkpoint());
    if (continues) require_continuable(folder.checkpoint(), key, plan.spec.mode);
    (void)tell_whether_more(group, true);
    keep_division(session, continues ? folder.checkpoint() : "");
  }
  if (options.checkpoint_every > 0) tell_of_checkpoints(plan.spec.mode);
  const InterruptGuard interrupt;
  return SingleRun(options, plan, session, folder, interrupt).execute();
}

}  // namespace noisemark::suite
