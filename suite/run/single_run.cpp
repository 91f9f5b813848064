#include "suite/run/single_run.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "memopt/tracking_allocator.h"
#include "reports/error.h"
#include "reports/gate.h"
#include "reports/quality/gradient_bound.h"
#include "reports/sha256.h"
#include "reports/warmup.h"
#include "reports/write_report.h"
#include "suite/config/canonical.h"
#include "suite/config/lock.h"
#include "suite/environment/changes.h"
#include "suite/environment/energy.h"
#include "suite/environment/environment.h"
#include "suite/io/dtype_names.h"
#include "suite/quality/validation.h"
#include "suite/random/counter_rng.h"
#include "suite/run/deterministic.h"
#include "suite/run/earlier_run.h"
#include "suite/run/event_log.h"
#include "suite/run/failure.h"
#include "suite/run/identity.h"
#include "suite/run/interrupt.h"
#include "suite/run/largest_batch.h"
#include "suite/run/memory_pass.h"
#include "suite/run/metrics.h"
#include "suite/run/mode_figures.h"
#include "suite/run/new_result.h"
#include "suite/run/out_of_memory.h"
#include "suite/run/output_folder.h"
#include "suite/run/owners.h"
#include "suite/run/pass_watch.h"
#include "suite/run/profile_pass.h"
#include "suite/run/progress.h"
#include "suite/run/sampling_pass.h"
#include "suite/run/side_by_side.h"
#include "suite/run/training_pass.h"
#include "suite/run/verdict.h"
#include "suite/sampling/folder.h"

namespace noisemark::suite {
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

constexpr const char* kNoCertificate = "it was not trained beside none (--no-certificate)";

/// "memory pass" of the event's key "memory_pass".
std::string words_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

std::vector<reports::GateRule> gate_rules(const Definition& definition) {
  std::vector<reports::GateRule> rules;
  for (const GateConfig& gate : definition.gates) {
    rules.push_back({gate.name, gate.metric, gate.relation, gate.bound, gate.precisions});
  }
  return rules;
}

/// Fills a Result section by section, in the order of the passes.
class SingleRun {
 public:
  SingleRun(const RunOptions& options, const PlannedRun& plan, const SessionOptions& session,
            const OutputFolder& folder, const InterruptGuard& interrupt)
      : options_(options),
        plan_(plan),
        session_(session),
        folder_(folder),
        line_(plan.id + " " + variant_label(plan.variant), plan.definition.train.steps,
              plan.definition.train.batch),
        watch_{line_, interrupt},
        events_(folder.events(), options.resume) {
    describe();
  }

  /// What ends it early is written into the result before it is thrown on.
  ExitCode execute() {
    try {
      make_passes();
      judge();
      write();
    } catch (const std::exception& error) {
      const auto* full = dynamic_cast<const OutOfMemory*>(&error);
      if (full != nullptr && full->section()) take_section(*full->section());
      write_failed(failure_of(error));
      throw;
    }
    return finish();
  }

 private:
  void describe() {
    const Definition& definition = plan_.definition;
    const Variant& variant = plan_.variant;
    const bool pictures = session_.dataset->standing() != "generated";
    result_ = new_result(options_.argv, pictures ? options_.data : "", variant.threads);
    result_.title = definition.title;
    if (const std::string broken = fault_words(session_.fault); !broken.empty()) {
      result_.title += ", broken on purpose: " + broken;
    }
    result_.definition = canonical_json(definition);
    result_.seeds = seeds_of(plan_.seed, definition);
    result_.identity = identity_of(plan_, *session_.dataset);
    result_.provenance.data = session_.dataset->files();
    describe_machine(variant.device, result_);
    reports::Protocol& protocol = result_.protocol;
    protocol.batch = definition.train.batch;
    protocol.accumulation = definition.train.accumulation;
    protocol.deterministic = variant.deterministic;
    protocol.loader_threads = session_.loader_threads;
    result_.memory.missing_reason = options_.memory ? "the memory pass did not end"
                                                    : "the memory pass was left out (--no-memory)";
    result_.memory_mode.missing_reason =
        has_mode() ? "its passes did not end" : "mode none keeps what autograd keeps";
    result_.memory_mode.budget = budget_of(variant.mode);
    result_.quality.missing_reason = "training did not begin";
    result_.memory.training.missing_reason = result_.quality.missing_reason;
    if (definition.measure.memory_steps == 0) {
      result_.memory.missing_reason = "the memory pass was left out (measure.memory_steps=0)";
    }
    if (plan_.variant.precision.autocast) {
      result_.mixed_precision.type = dtype_name(*plan_.variant.precision.autocast);
    }
    give_no_profile("the profile pass did not begin");
    if (definition.measure.profile_steps == 0) {
      give_no_profile("the profile pass was left out (measure.profile_steps=0)");
    }
    if (!options_.profile) give_no_profile("the profile pass was left out (--no-profile)");
    if (has_mode()) result_.memory_mode.fallbacks = no_pass_yet();
    if (options_.fit_memory_bytes) {
      result_.batch_fit.memory_bytes = options_.fit_memory_bytes;
      result_.batch_fit.missing_reason = "the search for the largest batch did not end";
    }
  }

  void make_passes() {
    events_.init_start(plan_.definition, plan_.seed);
    try {
      const MeasureConfig& measure = plan_.definition.measure;
      if (options_.memory && measure.memory_steps > 0) measure_memory();
      if (has_mode()) describe_mode();
      if (options_.fit_memory_bytes) fit();
      train();
      // Last: LibTorch's profiler leaves CUPTI attached, which slows every later launch on a GPU.
      if (options_.profile && measure.profile_steps > 0) profile();
    } catch (const Interrupted& error) {
      interrupted_ = error.what();
    } catch (const NonFinite& error) {
      const std::string pass = words_of(events_.pass_abort());
      outcome_.finiteness = {
          .finite = false,
          .first_bad = fmt::format("{} at step {} of the {}", error.tensor(), error.step(), pass)};
    }
  }

  /// In the order of the passes.
  [[nodiscard]] std::vector<reports::PassFallbacks> no_pass_yet() const {
    return {no_fallbacks("memory", result_.memory.missing_reason),
            no_fallbacks("certificate", options_.certificate ? "the certificate pass did not end"
                                                             : kNoCertificate),
            no_fallbacks("training", "training did not begin")};
  }

  [[nodiscard]] bool has_mode() const { return plan_.variant.mode != "none"; }

  void measure_memory() {
    events_.pass_start("memory_pass");
    reports::MemoryMode& mode = result_.memory_mode;
    take_section(memory_pass(session_, watch_, has_mode() ? &mode : nullptr,
                             options_.memory_snapshot ? folder_.memory_snapshot() : ""));
    if (has_mode()) {
      SessionOptions plain = session_;
      plain.variant.mode = "none";
      plain.variant.baseline = "plain";
      mode.plain = step_bytes(memory_pass(plain, watch_));
      mode.encoded_bytes = encoded_at_forward_end(result_.memory);
    }
    events_.pass_stop("memory_pass");
    result_.protocol.memory_steps = plan_.definition.measure.memory_steps;
  }

  /// The mode beside "none".
  void describe_mode() {
    reports::MemoryMode& mode = result_.memory_mode;
    mode.lossless = memopt::make_mode(plan_.variant.mode)->lossless();
    Variant reference = plan_.variant;
    reference.mode = "none";
    mode.reference = variant_label(reference);
    const std::string missing =
        options_.certificate ? "the certificate pass did not end" : kNoCertificate;
    mode.overhead.missing_reason = mode.gradient_error.missing_reason = missing;
    mode.certificate.words = "Not applied: " + missing + ".";
    mode.measured = true;
    mode.missing_reason.clear();
    if (!result_.memory.measured) mode.plan_missing_reason = result_.memory.missing_reason;
    if (!options_.certificate) return;
    events_.pass_start("certificate_pass");
    const SideBySide trained = train_side_by_side(session_, watch_);
    mode.overhead = overhead_of(trained);
    mode.certificate = certificate_of(trained, mode.lossless);
    mode.gradient_error = gradient_error_of(trained);
    set_fallbacks(mode, fallbacks_of("certificate", trained.mode_report));
    events_.pass_stop("certificate_pass");
  }

  void fit() {
    events_.pass_start("fit_pass");
    result_.batch_fit = largest_batch(session_, *options_.fit_memory_bytes, watch_);
    events_.pass_stop("fit_pass");
  }

  void give_no_profile(const std::string& reason) {
    result_.utilization.missing_reason = reason;
    if (plan_.variant.device.is_cuda()) result_.utilization.device_use.missing_reason = reason;
    if (plan_.variant.precision.autocast) result_.mixed_precision.missing_reason = reason;
  }

  void profile() {
    if (!interrupted_.empty() || !outcome_.finiteness.finite) {
      return give_no_profile("it is made after training, which did not end");
    }
    give_no_profile("the profile pass did not end");
    events_.pass_start("profile_pass");
    reports::Utilization measured = profile_pass(session_, watch_, &result_.mixed_precision);
    events_.pass_stop("profile_pass");
    measured.parameters = result_.utilization.parameters;
    result_.utilization = std::move(measured);
    result_.protocol.profile_steps = plan_.definition.measure.profile_steps;
    if (const auto rate = images_per_second(result_)) add_achieved(result_.utilization, *rate);
  }

  void train() {
    watch_.before_step("training", 0, plan_.definition.train.steps);
    TrainingPassOptions options;
    options.session = session_;
    options.session.timed = true;
    options.checkpoint_path = folder_.checkpoint();
    options.checkpoint_every = options_.checkpoint_every;
    options.resume = options_.resume;
    options.checkpoint_key = run_key(plan_, session_.dataset->files());
    options.weights_path = folder_.weights();
    options.average_path = folder_.average();
    options.events = &events_;
    const EnergyReading before = energy_of(plan_.variant.device);
    const auto began = std::chrono::steady_clock::now();
    outcome_ = training_pass(options, watch_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    energy_ = energy_used(before, energy_of(plan_.variant.device), took.count());
    add_changes(result_.environment, machine_state(plan_.variant.device));
    take_outcome();
    if (outcome_.error) std::rethrow_exception(outcome_.error);
    if (outcome_.interrupted) {
      interrupted_ = fmt::format("interrupted after step {} of {}", result_.protocol.steps,
                                 plan_.definition.train.steps);
    }
    result_.artifacts.push_back(
        {"weights.safetensors", reports::sha256_of_file(folder_.weights())});
    if (!result_.determinism.ema_sha256.empty()) {
      result_.artifacts.push_back({"ema.safetensors", reports::sha256_of_file(folder_.average())});
    }
    if (interrupted_.empty() && outcome_.finiteness.finite) sample();
  }

  /// Outside the timed pass, from the weights as they were written.
  void sample() {
    const Definition& definition = plan_.definition;
    if (definition.sample.sampler == "none") return;
    SamplingPassOptions options;
    options.definition = definition;
    options.sample = definition.sample;
    options.seed = plan_.seed;
    options.variant = plan_.variant;
    options.weights = folder_.path.string();
    options.batch = definition.train.batch / definition.train.accumulation;
    options.out = folder_.samples();
    prepare_sampling_folder(options.out, /*force=*/true);
    sampling_pass(options, watch_);
    for (const char* name : {"sampling.json", "samples.npy", "sheet.png"}) {
      result_.artifacts.push_back(
          {std::string("samples/") + name, reports::sha256_of_file(options.out / name)});
    }
  }

  void take_outcome() {
    result_.samples = outcome_.progress.samples;
    result_.quality = outcome_.quality;
    result_.determinism = outcome_.determinism;
    result_.memory.training = outcome_.memory;
    result_.provenance.init_weights_sha256 = outcome_.progress.init_weights_sha256;
    result_.utilization.parameters = outcome_.parameters;
    result_.mixed_precision.loss_scale = outcome_.loss_scale;
    reports::Protocol& protocol = result_.protocol;
    protocol.steps = static_cast<int64_t>(result_.samples.step_s.size());
    protocol.resumed_at_step = outcome_.resumed_at_step;
    if (outcome_.resumed_at_step > 0) {
      energy_ = {std::nullopt, "the run was resumed: another process used a part of it", ""};
    }
    if (has_mode()) {
      const int64_t steps = protocol.steps - protocol.resumed_at_step;
      set_fallbacks(result_.memory_mode,
                    training_fallbacks(*memopt::make_mode(plan_.variant.mode), outcome_.mode,
                                       steps * plan_.definition.train.accumulation));
    }
    const reports::Warmup warmup = reports::detect_warmup(result_.samples.step_s);
    protocol.warmup_steps = warmup.steps;
    protocol.warmup_stable = warmup.stable;
    protocol.warmup_reason = warmup.reason;
  }

  void judge() {
    result_.metrics = derive_metrics(result_, outcome_.skipped_steps);
    result_.metrics.push_back(energy_metric(energy_));
    std::vector<reports::GateRule> rules = gate_rules(plan_.definition);
    const reports::MemoryMode& mode = result_.memory_mode;
    if (mode.measured && !mode.lossless && options_.certificate) {
      rules.push_back(
          {"gradient_error", "gradient_error", "at most", reports::gradient_error_bound(result_)});
    }
    result_.gates = reports::evaluate_gates(result_, rules, outcome_.finiteness);
    result_.exit = reports::exit_of(result_.gates, result_.identity.custom);
    if (!interrupted_.empty()) {
      result_.exit = {static_cast<int>(ExitCode::kInterrupted), "interrupted", {interrupted_}};
    }
    const Definition& definition = plan_.definition;
    if (definition.unlocked) result_.exit.reasons.push_back(unlocked_words(definition));
  }

  /// All of the section but what another pass has to say.
  void take_section(reports::MemorySection section) {
    section.training = std::move(result_.memory.training);
    result_.memory = std::move(section);
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
      if (result_.gates.empty()) result_.metrics = derive_metrics(result_);
      write_what_fits();
      (void)finish();
    } catch (const std::exception& error) {
      fmt::print(stderr, "noisemark: no result was written: {}\n", failure_of(error).message);
    }
  }

  void write() {
    for (const std::string& file : {folder_.events(), folder_.memory_snapshot()}) {
      const std::string name = std::filesystem::path(file).filename().string();
      std::erase_if(result_.artifacts, [&](const auto& one) { return one.path == name; });
      if (!std::filesystem::exists(file)) continue;
      result_.artifacts.push_back({name, reports::sha256_of_file(file)});
    }
    reports::write_run_folder(folder_.path, result_);
  }

  void write_what_fits() {
    try {
      write();
    } catch (const Error&) {
      reports::write_result_alone(folder_.path, result_);
    }
  }

  ExitCode finish() {
    put_in_place(folder_);
    line_.clear();
    if (options_.verdict) {
      fmt::print("{}", verdict_text(result_, folder_.final_path));
      std::fflush(stdout);
    }
    return static_cast<ExitCode>(result_.exit.code);
  }

  const RunOptions& options_;
  const PlannedRun& plan_;
  const SessionOptions& session_;
  const OutputFolder& folder_;
  Progress line_;
  PassWatch watch_;
  EventLog events_;
  TrainingOutcome outcome_;
  EnergyUsed energy_{std::nullopt, "training did not begin", ""};
  std::string interrupted_;  // where, in words; empty: it was not
  Result result_;
};

ExistingRun existing_run(const RunOptions& options) {
  if (options.resume) return ExistingRun::kResume;
  return options.force ? ExistingRun::kReplace : ExistingRun::kRefuse;
}

}  // namespace

void apply_variant(const Variant& variant) {
  at::set_num_threads(static_cast<int>(variant.threads));
  if (variant.deterministic && variant.device.is_cuda()) require_cublas_workspace();
  set_deterministic(variant.deterministic);
  at::globalContext().setAllowTF32CuBLAS(variant.precision.tf32);
  at::globalContext().setAllowTF32CuDNN(variant.precision.tf32);
  const baselines::Execution execution = baselines::parse_baseline(variant.baseline);
  at::globalContext().setBenchmarkCuDNN(execution.autotuned);
  baselines::apply_process_settings(execution);
}

SessionOptions session_options(const RunOptions& options, const PlannedRun& plan) {
  SessionOptions session;
  session.definition = plan.definition;
  session.definition.seed = plan.seed;
  session.variant = plan.variant;
  {
    const memopt::OwnerScope owner(memopt::Owner::kInput);
    const auto start = std::chrono::steady_clock::now();
    session.dataset = open_dataset(session.definition, options.data);
    session.data_open_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const std::string note = session.dataset->note();
  if (!note.empty()) fmt::print(stderr, "noisemark: --data {}: {}\n", options.data, note);
  require_evaluation_samples(session.definition, *session.dataset);
  session.init_weights = options.init_weights;
  session.loader_threads = options.loader_threads;
  return session;
}

ExitCode run_single(const RunOptions& options, const PlannedRun& plan,
                    const std::filesystem::path& out, const Fault& fault) {
  if (options.memory_snapshot && !options.memory) {
    throw bad_input("--memory-snapshot", "", "--no-memory", "with the memory pass, which it is of");
  }
  if (options.fit_memory_bytes) require_countable_batch(plan.variant);
  apply_variant(plan.variant);
  // What cannot begin is found before anything is touched.
  SessionOptions session = session_options(options, plan);
  session.fault = fault;
  CheckpointKey key = run_key(plan, session.dataset->files());
  if (!options.init_weights.empty()) {
    key.init_weights_sha256 = tensors_sha256(make_session(session).trainer->weights());
  }
  const OutputFolder folder = prepare_output_folder(out, existing_run(options));
  if (options.resume) {
    const auto earlier = earlier_result(folder.path, key);
    if (earlier && reports::is_finished(*earlier)) return leave_finished(*earlier, folder.path);
    if (std::filesystem::exists(folder.checkpoint())) {
      require_continuable(folder.checkpoint(), key, plan.variant.mode);
    }
  }
  if (options.checkpoint_every > 0) tell_of_checkpoints(plan.variant.mode);
  const InterruptGuard interrupt;
  return SingleRun(options, plan, session, folder, interrupt).execute();
}

}  // namespace noisemark::suite
