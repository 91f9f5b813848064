#include "suite/run/passes/training_pass.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "reports/base/sha256.h"
#include "reports/base/streams.h"
#include "suite/config/lock.h"
#include "suite/environment/environment.h"
#include "suite/io/safetensors.h"
#include "suite/io/tensors.h"
#include "suite/probes/phase_timer.h"
#include "suite/probes/process_memory.h"
#include "suite/quality/validation.h"
#include "suite/run/passes/owners.h"
#include "suite/sampling/folder.h"
#include "suite/sampling/sampler.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

using Clock = std::chrono::steady_clock;

// The interval is so long that asking a driver costs nothing that counts.
constexpr double kSecondsBetweenMachineStates = 10;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void append_last(std::vector<double>& to, const std::vector<double>& from) {
  to.push_back(from.back());
}

/// Tells what a rank draws and exchanges: the noise of the first step, because ranks must not draw
/// the same, and the traffic of the last one.
class RankWatch final : public StepObserver {
 public:
  explicit RankWatch(const Trainer& trainer) : trainer_(trainer) {}

  void on_step_begin(int64_t /*step*/) override { before_ = traffic(); }
  void on_phase_begin(Phase phase) override {
    if (phase != Phase::kForward || !sha256_.empty()) return;
    sha256_ = tensors_sha256({{"noise", trainer_.batch().noise}});
  }
  void on_phase_end(Phase /*phase*/) override {}
  void on_step_end(int64_t /*step*/) override { exchanged_ = traffic() - before_; }
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  [[nodiscard]] const Traffic& exchanged() const { return exchanged_; }

 private:
  [[nodiscard]] Traffic traffic() const { return trainer_.options().group->traffic(); }

  const Trainer& trainer_;
  Traffic before_;
  Traffic exchanged_;
  std::string sha256_;
};

/// One training pass in progress: the session, the clock, and what was measured.
class Pass {
 public:
  Pass(const TrainingPassOptions& options, const PassWatch& watch)
      : options_(options),
        watch_(watch),
        definition_(options.session.spec.definition),
        session_(make_session(options.session)),
        trainer_(*session_.trainer),
        timer_(options.session.spec.device) {
    elapsed_before_s_ = options.session.data_open_s;
    if (options.session.group) rank_.emplace(trainer_);
    progress().init_weights_sha256 = tensors_sha256(trainer_.whole_weights());
    for (const auto& [name, parameter] : trainer_.whole_parameters()) {
      outcome_.parameters += parameter.numel();
    }
  }

  TrainingOutcome run() {
    try {
      name_owners_when_full(trainer_, [this] { train_and_write(); });
    } catch (...) {
      outcome_.error = std::current_exception();
    }
    describe_quality();
    describe_losses();
    describe_memory();
    outcome_.processor_s = timer_.processor_s();
    outcome_.mode = memopt::report_of(*session_.mode);
    describe_rank();
    return std::move(outcome_);
  }

 private:
  TrainingProgress& progress() { return outcome_.progress; }

  [[nodiscard]] double elapsed_s() const { return elapsed_before_s_ + seconds_since(start_); }

  void train_and_write() {
    restore();
    device_memory_.emplace(options_.session.spec.device);
    if (options_.events != nullptr) options_.events->run_start();
    start_ = Clock::now();
    try {
      if (lacks_evaluation()) make_up_evaluation();
      train();
    } catch (const Interrupted&) {
      outcome_.in_evaluation = true;
      stop_early();
    } catch (const NonFinite& error) {
      outcome_.finiteness = {
          .finite = false,
          .first_bad = error.tensor() + " at step " + std::to_string(error.step())};
    }
    progress().elapsed_s = elapsed_s();
    log_end();
    describe_weights();
  }

  [[nodiscard]] bool writes() const { return !options_.checkpoint_path.empty(); }

  /// Rank 0 knows, and tells the others.
  [[nodiscard]] bool has_checkpoint() const {
    const bool found = writes() && std::filesystem::exists(options_.checkpoint_path);
    const std::shared_ptr<Group>& group = options_.session.group;
    return group ? !group->exchange(found ? "found" : "").front().empty() : found;
  }

  void restore() {
    if (!options_.resume || !has_checkpoint()) return;
    if (writes()) {
      progress() = read_checkpoint(options_.checkpoint_path, trainer_, options_.checkpoint_key);
      elapsed_before_s_ += progress().elapsed_s;
      // Another number of ranks may have made the steps until here, or one process.
      reports::Samples& samples = progress().samples;
      const bool timed = rank_ && trainer_.options().group->times_traffic();
      const size_t measured = timed ? samples.step_s.size() : 0;
      samples.communication_s.resize(measured);
      samples.exposed_s.resize(measured);
    } else {
      trainer_.restore(trainer_.whole_state(), 0);
    }
    outcome_.resumed_at_step = trainer_.next_step();
  }

  /// Says whether the steps so far ask for an evaluation that was not made: the first one, or one
  /// that an interrupt cut off. Rank 0 knows, and tells the others.
  [[nodiscard]] bool lacks_evaluation() {
    const int64_t done = trainer_.next_step();
    if (done == 0) return true;
    const auto& made = progress().evaluations;
    const bool lacks =
        writes() && evaluation_due(done) && (made.empty() || made.back().step < done);
    const std::shared_ptr<Group>& group = options_.session.group;
    return group ? !group->exchange(lacks ? "evaluation" : "").front().empty() : lacks;
  }

  void make_up_evaluation() {
    const int64_t done = trainer_.next_step();
    evaluate(done);
    if (done > 0 && checkpoint_due(done)) checkpoint();
  }

  void train() {
    while (trainer_.next_step() < definition_.train.steps) {
      if (watch_.end_requested()) return stop_early();
      const StepRecord record =
          rank_ ? trainer_.step({&*rank_, &timer_}) : trainer_.step({&timer_});
      keep(record);
      // One that is due after this very step is still to come.
      watch_.line.show(
          record.step, progress().samples.step_s.back(), record.loss,
          evaluations_after(record.step, definition_.train.steps, definition_.eval.every));
      const int64_t done = record.step + 1;
      note_machine(done);
      if (evaluation_due(done)) evaluate(done);
      if (checkpoint_due(done)) checkpoint();
    }
    // A pass may follow, which may be interrupted.
    if (options_.checkpoint_every > 0 && !checkpoint_due(definition_.train.steps)) checkpoint();
  }

  void stop_early() {
    outcome_.interrupted = true;
    if (trainer_.next_step() > 0 && (writes() || rank_)) checkpoint();
  }

  [[nodiscard]] bool evaluation_due(int64_t done) const {
    if (done == definition_.train.steps) return true;
    return definition_.eval.every > 0 && done % definition_.eval.every == 0;
  }

  [[nodiscard]] bool checkpoint_due(int64_t done) const {
    return options_.checkpoint_every > 0 && done % options_.checkpoint_every == 0;
  }

  void keep(const StepRecord& record) {
    reports::Samples& samples = progress().samples;
    const reports::Samples& timed = timer_.samples();
    append_last(samples.step_s, timed.step_s);
    for (const auto& [name, seconds] : reports::kSamplePhases) {
      append_last(samples.*seconds, timed.*seconds);
    }
    samples.loss.push_back(std::isfinite(record.loss) ? record.loss : std::nan(""));
    if (record.grad_norm) samples.grad_norm.push_back(*record.grad_norm);
    if (!rank_ || !trainer_.options().group->times_traffic()) return;
    samples.communication_s.push_back(rank_->exchanged().busy_s);
    samples.exposed_s.push_back(rank_->exchanged().exposed_s);
  }

  /// Notes the machine between two steps, now and then, and after the last one.
  void note_machine(int64_t done) {
    if (options_.events == nullptr) return;
    const bool due = seconds_since(noted_) >= kSecondsBetweenMachineStates;
    if (!due && done < definition_.train.steps) return;
    options_.events->machine_state(done, machine_figures(options_.session.spec.device));
    noted_ = Clock::now();
  }

  void log_end() {
    if (options_.events == nullptr) return;
    const bool whole = !outcome_.in_evaluation && outcome_.finiteness.finite &&
                       trainer_.next_step() == definition_.train.steps;
    options_.events->run_stop(whole ? "success" : "aborted",
                              trainer_.next_step() * definition_.train.batch);
  }

  void evaluate(int64_t done) {
    watch_.line.say("evaluating");
    const Clock::time_point began = Clock::now();
    const int64_t samples_seen = done * definition_.train.batch;
    if (options_.events != nullptr) options_.events->eval_start(done, samples_seen);
    const bool average = definition_.eval.weights == "ema";
    std::optional<EmaWeightsGuard> guard;
    const NamedTensors parameters = trainer_.whole_parameters();
    if (average) guard.emplace(parameters, trainer_.average());
    const TrainerOptions& trainer = trainer_.options();
    EvaluationOptions how;
    how.device = trainer.device;
    how.precision = trainer.precision;
    how.channels_last = trainer.channels_last;
    how.before_batch = [&](int64_t samples_done) { end_evaluation_if_asked(done, samples_done); };
    reports::Evaluation evaluation = suite::evaluate(trainer_.model(), trainer_.process(),
                                                     *options_.session.dataset, definition_, how);
    evaluation.step = done;
    evaluation.samples_seen = samples_seen;
    evaluation.elapsed_s = elapsed_s();
    watch_.line.evaluated(seconds_since(began));
    if (options_.events != nullptr) options_.events->eval_stop(evaluation);
    if (!std::isfinite(evaluation.loss)) throw NonFinite(done, "validation loss");
    progress().evaluations.push_back(std::move(evaluation));
  }

  /// A large evaluation takes minutes, which nobody who ends a run has.
  void end_evaluation_if_asked(int64_t done, int64_t samples_done) const {
    if (!watch_.end_requested()) return;
    if (options_.events != nullptr) options_.events->eval_abort(done * definition_.train.batch);
    throw Interrupted(fmt::format("interrupted in the evaluation after {} of {} samples",
                                  samples_done, definition_.eval.samples));
  }

  /// Rank 0 writes it; the others give it their shares.
  void checkpoint() {
    if (!writes()) {
      (void)trainer_.whole_state();
      return;
    }
    progress().elapsed_s = elapsed_s();
    progress().division = trainer_.pipeline() == nullptr ? Division{} : *options_.session.division;
    write_checkpoint(options_.checkpoint_path, trainer_, options_.checkpoint_key, progress());
  }

  void describe_memory() {
    outcome_.memory = training_memory_of(options_.session.spec.device,
                                         device_memory_ ? device_memory_->stats() : std::nullopt,
                                         {trainer_.repeated_steps(), trainer_.recording_bytes()});
  }

  void describe_rank() {
    if (!rank_) return;
    outcome_.noise_sha256 = rank_->sha256();
    outcome_.exchanged = rank_->exchanged();
    outcome_.expected_bytes = trainer_.exchanged_bytes();
    if (trainer_.pipeline() != nullptr) outcome_.stages = trainer_.pipeline()->stages();
  }

  void describe_losses() {
    const std::vector<double>& losses = progress().samples.loss;
    reports::Sha256 trace;
    trace.update(std::as_bytes(std::span(losses)));
    outcome_.determinism.loss_trace_sha256 = trace.hex();
  }

  void describe_weights() {
    const NamedTensors average = trainer_.averaged_weights();
    const NamedTensors weights = trainer_.whole_weights();
    outcome_.determinism.weights_sha256 = tensors_sha256(weights);
    if (!average.empty()) outcome_.determinism.ema_sha256 = tensors_sha256(average);
    if (trainer_.scaler()) {
      outcome_.skipped_steps = trainer_.scaler()->skipped_steps();
      outcome_.loss_scale = trainer_.scaler()->current_scale();
    }
    write_weights(options_.weights_path, weights);
    write_weights(options_.average_path, average);
  }

  void write_weights(const std::string& path, const NamedTensors& trained) const {
    if (path.empty() || trained.empty()) return;
    NamedTensors weights;
    for (const auto& [name, tensor] : trained) {
      weights.emplace_back(name, tensor.detach().to(at::kCPU).contiguous());
    }
    write_safetensors(path, weights,
                      {{"definition_sha256", options_.checkpoint_key.definition_sha256},
                       {"step", std::to_string(trainer_.next_step())}});
  }

  void describe_quality() {
    reports::Quality& quality = outcome_.quality;
    quality.weights = definition_.eval.weights;
    quality.samples = definition_.eval.samples;
    quality.evaluations = progress().evaluations;
    quality.missing_reason = why_no_target(definition_);
    if (!quality.missing_reason.empty()) return;
    quality.target_loss = definition_.eval.target_loss;
    for (const reports::Evaluation& evaluation : quality.evaluations) {
      if (evaluation.loss > *quality.target_loss) continue;
      quality.time_to_quality_s = evaluation.elapsed_s;
      quality.samples_to_quality = evaluation.samples_seen;
      return;
    }
    quality.missing_reason = "no evaluation reached the target loss";
  }

  const TrainingPassOptions& options_;
  const PassWatch& watch_;
  const Definition& definition_;
  Session session_;
  Trainer& trainer_;
  PhaseTimer timer_;
  std::optional<RankWatch> rank_;  // is empty outside a group
  TrainingOutcome outcome_;
  std::optional<DeviceMemoryWatch> device_memory_;  // is empty before the pass begins
  Clock::time_point start_{};
  Clock::time_point noted_ = Clock::now();  // time at which the machine's state was last asked for
  double elapsed_before_s_ = 0;
};

}  // namespace

std::string why_no_target(const Definition& definition) {
  if (definition.eval.target_loss <= 0) return "the definition sets no target loss";
  const auto sets = [&](std::string_view key) {
    return std::any_of(definition.overrides.begin(), definition.overrides.end(),
                       [key](const std::string& one) { return one.starts_with(key); });
  };
  const bool is_of_others = sets("data.name=") && !sets("eval.target_loss=");
  return is_of_others ? "the definition's target loss is of other images than these" : "";
}

int64_t evaluations_after(int64_t done, int64_t steps, int64_t every) {
  if (done >= steps) return 0;
  if (every <= 0) return 1;
  return steps / every - done / every + (steps % every == 0 ? 0 : 1);
}

TrainingOutcome training_pass(const TrainingPassOptions& options, const PassWatch& watch) {
  return Pass(options, watch).run();
}

namespace {

/// Shows how far the sampler is, not more often than anybody can read, and ends it when asked to.
class Watcher {
 public:
  explicit Watcher(const PassWatch& watch) : watch_(watch) {}

  void operator()(const SamplerPosition& at) {
    if (watch_.interrupt.requested()) {
      throw Interrupted(fmt::format("interrupted in the sampling after {} of {} samples",
                                    at.samples_done, at.samples));
    }
    const Clock::time_point now = Clock::now();
    if (now - shown_ < kShowEvery) return;
    shown_ = now;
    const double rate = static_cast<double>(at.samples_done) / seconds_since(start_);
    watch_.line.say(fmt::format("sampling, {} of {} images, step {}/{}{}", at.samples_done,
                                at.samples, at.step + 1, at.steps,
                                at.samples_done > 0 ? fmt::format(", {:.1f} images/s", rate) : ""));
  }

 private:
  const PassWatch& watch_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_{};
};

/// Returns the source of x_T; what it was goes into `hash` in the order of the samples, as float32.
NoiseSource noise_of(const SamplingPassOptions& options,
                     const std::shared_ptr<reports::Sha256>& hash) {
  NoiseSource source = counter_noise(options.seed);
  if (options.initial_noise.defined()) {
    source = with_initial_noise(options.initial_noise, std::move(source));
  }
  return [source = std::move(source), hash](const NoiseDraw& draw, const at::Tensor& out) {
    source(draw, out);
    if (draw.number == 0) hash->update(bytes_of(row_major_on_cpu(out.to(at::kFloat))));
  };
}

void tell_of_other_training(const SamplingWeights& weights, const Definition& definition) {
  const std::string words = other_training(weights, definition);
  if (!words.empty()) reports::say_on_stderr(words);
}

/// The network with the weights, in its place; where they come from goes into `record`.
std::shared_ptr<Denoiser> load_model(const SamplingPassOptions& options,
                                     const baselines::Execution& execution,
                                     SamplingRecord& record) {
  const Definition& definition = options.spec.definition;
  const RunSpec& spec = options.spec;
  record.weights = read_sampling_weights(options.weights, options.kind, definition.eval.weights);
  std::shared_ptr<Denoiser> model = make_denoiser(definition.model, execution.ops());
  tell_of_conversion(record.weights.tensors, record.weights.file);
  copy_weights(record.weights.tensors, *model, record.weights.file);
  record.weights.tensors.clear();
  record.weights_sha256 = tensors_sha256(named_parameters(*model));
  place_model(*model, spec.device, spec.precision.weights, execution.channels_last);
  return model;
}

void describe(const SamplingPassOptions& options, SamplingRecord& record) {
  record.definition = options.spec.definition;
  record.sample = options.sample;
  record.seed = options.seed;
  record.noise_file = options.noise_file;
  record.baseline = options.spec.baseline.name;
  record.precision = options.spec.precision.name;
  record.device = options.spec.device.str();
  record.threads = options.spec.threads;
  record.batch = options.batch;
}

/// The network as all ranks evaluate it together; empty for one process.
std::shared_ptr<PatchedDenoiser> patch(const SamplingPassOptions& options,
                                       const SamplingRecord& record,
                                       const std::shared_ptr<Denoiser>& model) {
  if (!options.group) return nullptr;
  const Definition& definition = options.spec.definition;
  options.group->require_equal("definition, SHA-256", definition_sha256(definition));
  options.group->require_equal("weights, SHA-256", record.weights_sha256);
  options.group->require_equal(
      "sampling",
      fmt::format("{} samples by {} in {} steps, {}, seed {}, batch {}, {}", options.sample.count,
                  options.sample.sampler, options.sample.ddim_steps, variant_label(options.spec),
                  options.seed, options.batch,
                  patch_words(options.group->rank().ranks, options.patches)));
  return std::make_shared<PatchedDenoiser>(model, definition.model, options.group, options.patches);
}

}  // namespace

std::optional<PatchRecord> sampling_pass(const SamplingPassOptions& options,
                                         const PassWatch& watch) {
  const RunSpec& spec = options.spec;
  const baselines::Execution& execution = spec.baseline.execution;
  SamplingRecord record;
  describe(options, record);
  std::shared_ptr<Denoiser> model = load_model(options, execution, record);
  watch.line.clear();
  const bool writes = !options.group || options.group->rank().rank == 0;
  if (writes) tell_of_other_training(record.weights, spec.definition);
  const auto patched = patch(options, record, model);
  if (patched) model = patched;
  watch.line.say("sampling");

  const Definition& definition = options.spec.definition;
  const DiffusionProcess process(definition.diffusion, spec.device, spec.precision.weights);
  const auto noise_hash = std::make_shared<reports::Sha256>();
  const SamplerTask task{options.sample, definition.model.channels, definition.model.resolution,
                         noise_of(options, noise_hash)};
  const auto before_step = [&patched, watcher = Watcher(watch)](const SamplerPosition& at) mutable {
    watcher(at);
    if (patched && at.step == 0) patched->begin_samples();
  };
  const SamplerOptions how{spec.device, spec.precision, execution.channels_last, options.batch,
                           before_step};
  const Clock::time_point start = Clock::now();
  const at::Tensor samples = draw_samples(*model, process, task, how);
  record.sampling_s = seconds_since(start);
  record.noise_sha256 = noise_hash->hex();
  if (patched) record.patches = record_of(*patched, options.patches, *options.group, spec.threads);
  if (!writes) return record.patches;
  watch.line.say("writing samples");
  write_sampling_folder(options.out, samples, record);
  return record.patches;
}

}  // namespace noisemark::suite
