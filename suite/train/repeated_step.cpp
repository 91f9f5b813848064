// The part of the trainer that has a device repeat a recorded step.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <limits>

#include "memopt/repeated_work.h"
#include "reports/error.h"
#include "suite/train/step_scopes.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

/// On the stream that is recorded: enough for libraries to make what they need there, and for
/// searches among algorithms to end.
constexpr int64_t kWarmUps = 3;

/// A mode that has not settled by then never will.
constexpr int64_t kMostIssued = 64;

/// 1 where not finite, else 0; a scalar of float32.
at::Tensor not_finite(const at::Tensor& scalar) {
  return at::isfinite(scalar).logical_not().to(at::kFloat);
}

}  // namespace

bool Trainer::repeats(const memopt::SavedTensorSink* sink) const {
  if (!options_.make_graph || sink != nullptr) return false;
  if (recorded_.warm_ups > 0) return true;
  const int64_t forwards = issued_steps_ * definition_.train.accumulation;
  const bool watched = forwards > mode_.forwards_until_steady();
  if (watched && mode_.steady()) return true;
  if (issued_steps_ < kMostIssued) return false;
  throw bad_input("--baseline", "cuda-graph",
                  "mode " + mode_.name() + " has no plan to keep to after " +
                      std::to_string(issued_steps_) + " steps",
                  "a mode that settles");
}

/// To where the recorded step reads it.
void Trainer::place_batch() {
  const at::NoGradGuard no_grad;
  if (!recorded_.images.defined()) {
    recorded_.images = batch_.images.clone();
    recorded_.timesteps = batch_.timesteps.clone();
    recorded_.noise = batch_.noise.clone();
  } else {
    recorded_.images.copy_(batch_.images);
    recorded_.timesteps.copy_(batch_.timesteps);
    recorded_.noise.copy_(batch_.noise);
  }
  batch_.images = recorded_.images;
  batch_.timesteps = recorded_.timesteps;
  batch_.noise = recorded_.noise;
}

/// Clips and finds out on the device whether the weights may be touched.
at::Tensor Trainer::issue_checks(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  at::Tensor bad = not_finite(at::stack(losses_).sum());
  if (scaler_) bad = at::maximum(bad, scaler_->unscale(gradients));
  if (definition_.optimizer.clip_norm > 0) {
    recorded_.norm = clip_gradients(gradients, definition_.optimizer.clip_norm);
    if (!scaler_) bad = at::maximum(bad, not_finite(recorded_.norm));
  } else if (!scaler_) {
    constexpr double kMaximum = std::numeric_limits<double>::infinity();
    bad = at::maximum(bad, not_finite(at::stack(at::_foreach_norm(gradients, kMaximum)).max()));
  }
  return bad;
}

/// Everything of a step but the reading of the batch: nothing in it asks what the device knows.
void Trainer::issue_step(int64_t step) {
  losses_.clear();
  {
    StepRecord unread;
    unread.step = step;
    run_micro_batches({}, mode_, unread);
  }
  recorded_.bad = issue_checks(adam_.gradients());
  adam_.issue(recorded_.bad);
  if (scaler_) scaler_->update(recorded_.bad);
  adam_.release_gradients();
  if (ema_.repeats()) ema_.issue();
  recorded_.losses = losses_;
}

void Trainer::capture_step(int64_t step) {
  try {
    const memopt::RepeatedWorkScope recording;
    recorded_.graph->capture([this, step] { issue_step(step); });
    recording.check();
  } catch (const memopt::NotRepeatable& error) {
    throw bad_input("--baseline", "cuda-graph", "under mode " + mode_.name() + " " + error.what(),
                    "a mode whose steps need no host");
  }
  micro_ = {};
  recorded_.captured = true;
}

std::optional<int64_t> Trainer::recording_bytes() const {
  return recorded_.captured ? std::optional(recorded_.graph->own_bytes()) : std::nullopt;
}

void Trainer::read_repeated(StepRecord& record) {
  losses_ = recorded_.losses;
  record.loss = mean_loss();
  mode_.check_step();
  if (recorded_.norm.defined() && !scaler_) record.grad_norm = recorded_.norm.item<double>();
  const bool loss_ok = std::isfinite(record.loss);
  // A scaled step may overflow, and is then skipped: that is not an error.
  const bool gradients_ok = scaler_ || recorded_.bad.item<double>() == 0;
  if (loss_ok && gradients_ok) return;
  micro_ = {};
  throw NonFinite(record.step, first_non_finite());
}

void Trainer::repeat_step(const std::vector<StepObserver*>& observers, StepRecord& record) {
  {
    const PhaseScope phase(observers, Phase::kForward);
    if (!recorded_.graph) recorded_.graph = options_.make_graph(options_.device);
    place_batch();
    adam_.prepare_issued();
    if (recorded_.warm_ups < kWarmUps) {
      ++recorded_.warm_ups;
      recorded_.graph->warm_up([&] { issue_step(record.step); });
    } else {
      if (!recorded_.captured) capture_step(record.step);
      recorded_.graph->replay();
      ++repeated_steps_;
    }
    read_repeated(record);
    adam_.count_issued();
  }
  const PhaseScope phase(observers, Phase::kEma);
  ema_.repeats() ? ema_.count_issued() : ema_.update();
}

}  // namespace noisemark::suite
