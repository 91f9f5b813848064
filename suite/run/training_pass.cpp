#include "suite/run/training_pass.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "reports/sha256.h"
#include "suite/environment/machine_figures.h"
#include "suite/io/safetensors.h"
#include "suite/probes/device_memory.h"
#include "suite/probes/phase_timer.h"
#include "suite/quality/validation.h"
#include "suite/run/owners.h"

namespace noisemark::suite {
namespace {

using Clock = std::chrono::steady_clock;

// So seldom that asking a driver costs nothing that counts.
constexpr double kSecondsBetweenMachineStates = 10;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void append_last(std::vector<double>& to, const std::vector<double>& from) {
  to.push_back(from.back());
}

/// One training pass in progress: the session, the clock, and what was measured.
class Pass {
 public:
  Pass(const TrainingPassOptions& options, const PassWatch& watch)
      : options_(options),
        watch_(watch),
        definition_(options.session.definition),
        session_(make_session(options.session)),
        trainer_(*session_.trainer),
        timer_(options.session.variant.device) {
    elapsed_before_s_ = options.session.data_open_s;
    progress().init_weights_sha256 = tensors_sha256(trainer_.weights());
    for (const auto& [name, parameter] : trainer_.parameters()) {
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
    outcome_.mode = memopt::report_of(*session_.mode);
    return std::move(outcome_);
  }

 private:
  TrainingProgress& progress() { return outcome_.progress; }

  [[nodiscard]] double elapsed_s() const { return elapsed_before_s_ + seconds_since(start_); }

  void train_and_write() {
    restore();
    device_memory_.emplace(options_.session.variant.device);
    if (options_.events != nullptr) options_.events->run_start();
    start_ = Clock::now();
    try {
      if (progress().evaluations.empty()) evaluate(0);
      train();
    } catch (const NonFinite& error) {
      outcome_.finiteness = {
          .finite = false,
          .first_bad = error.tensor() + " at step " + std::to_string(error.step())};
    }
    progress().elapsed_s = elapsed_s();
    log_end();
    describe_weights();
  }

  void restore() {
    if (!options_.resume || !std::filesystem::exists(options_.checkpoint_path)) return;
    progress() = read_checkpoint(options_.checkpoint_path, trainer_, options_.checkpoint_key);
    elapsed_before_s_ += progress().elapsed_s;
    outcome_.resumed_at_step = trainer_.next_step();
  }

  void train() {
    while (trainer_.next_step() < definition_.train.steps) {
      if (watch_.interrupt.requested()) return stop_early();
      const StepRecord record = trainer_.step({&timer_});
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
    if (trainer_.next_step() > 0 && !options_.checkpoint_path.empty()) checkpoint();
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
    append_last(samples.forward_s, timed.forward_s);
    append_last(samples.backward_s, timed.backward_s);
    append_last(samples.optimizer_s, timed.optimizer_s);
    append_last(samples.ema_s, timed.ema_s);
    append_last(samples.data_wait_s, timed.data_wait_s);
    samples.loss.push_back(std::isfinite(record.loss) ? record.loss : std::nan(""));
    if (record.grad_norm) samples.grad_norm.push_back(*record.grad_norm);
  }

  /// Between two steps, now and then and after the last one.
  void note_machine(int64_t done) {
    if (options_.events == nullptr) return;
    const bool due = seconds_since(noted_) >= kSecondsBetweenMachineStates;
    if (!due && done < definition_.train.steps) return;
    options_.events->machine_state(done, machine_figures(options_.session.variant.device));
    noted_ = Clock::now();
  }

  void log_end() {
    if (options_.events == nullptr) return;
    const bool whole = trainer_.next_step() == definition_.train.steps;
    options_.events->run_stop(whole ? "success" : "aborted",
                              trainer_.next_step() * definition_.train.batch);
  }

  void evaluate(int64_t done) {
    watch_.line.say("evaluating");
    const Clock::time_point began = Clock::now();
    if (options_.events != nullptr) options_.events->eval_start(done);
    const bool average = definition_.eval.weights == "ema";
    std::optional<EmaWeightsGuard> guard;
    if (average) guard.emplace(trainer_.parameters(), trainer_.ema());
    const TrainerOptions& trainer = trainer_.options();
    EvaluationOptions how;
    how.device = trainer.device;
    how.precision = trainer.precision;
    how.channels_last = trainer.channels_last;
    reports::Evaluation evaluation = suite::evaluate(trainer_.model(), trainer_.process(),
                                                     *options_.session.dataset, definition_, how);
    evaluation.step = done;
    evaluation.samples_seen = done * definition_.train.batch;
    evaluation.elapsed_s = elapsed_s();
    watch_.line.evaluated(seconds_since(began));
    if (options_.events != nullptr) options_.events->eval_stop(evaluation);
    if (!std::isfinite(evaluation.loss)) throw NonFinite(done, "validation loss");
    progress().evaluations.push_back(std::move(evaluation));
  }

  void checkpoint() {
    progress().elapsed_s = elapsed_s();
    write_checkpoint(options_.checkpoint_path, trainer_, options_.checkpoint_key, progress());
  }

  void describe_memory() {
    outcome_.memory = training_memory_of(options_.session.variant.device,
                                         device_memory_ ? device_memory_->stats() : std::nullopt,
                                         {trainer_.repeated_steps(), trainer_.recording_bytes()});
  }

  void describe_losses() {
    const std::vector<double>& losses = progress().samples.loss;
    reports::Sha256 trace;
    trace.update(std::as_bytes(std::span(losses)));
    outcome_.determinism.loss_trace_sha256 = trace.hex();
  }

  void describe_weights() {
    const NamedTensors average = trainer_.averaged_weights();
    outcome_.determinism.weights_sha256 = tensors_sha256(trainer_.weights());
    if (!average.empty()) outcome_.determinism.ema_sha256 = tensors_sha256(average);
    if (trainer_.scaler()) {
      outcome_.skipped_steps = trainer_.scaler()->skipped_steps();
      outcome_.loss_scale = trainer_.scaler()->current_scale();
    }
    write_weights(options_.weights_path, trainer_.weights());
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
    if (definition_.eval.target_loss <= 0) {
      quality.missing_reason = "the definition sets no target loss";
      return;
    }
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
  TrainingOutcome outcome_;
  std::optional<DeviceMemoryWatch> device_memory_;  // of the pass, once it has begun
  Clock::time_point start_{};
  Clock::time_point noted_ = Clock::now();  // when the machine's state was last asked for
  double elapsed_before_s_ = 0;
};

}  // namespace

int64_t evaluations_after(int64_t done, int64_t steps, int64_t every) {
  if (done >= steps) return 0;
  if (every <= 0) return 1;
  return steps / every - done / every + (steps % every == 0 ? 0 : 1);
}

TrainingOutcome training_pass(const TrainingPassOptions& options, const PassWatch& watch) {
  return Pass(options, watch).run();
}

}  // namespace noisemark::suite
