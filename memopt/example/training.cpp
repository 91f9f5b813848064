#include "memopt/example/training.h"

#include <ATen/Context.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/randint.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/optim/adamw.h>

#include <memory>

#include "memopt/allocation_log.h"
#include "memopt/attribution.h"
#include "memopt/mode.h"
#include "memopt/saved_tensor_scope.h"
#include "memopt/tracking_allocator.h"

namespace example {
namespace {

namespace memopt = noisemark::memopt;

memopt::ModelView view_of(const torch::nn::Module& model, uint64_t seed) {
  memopt::ModelView view;
  for (const auto& item : model.named_parameters()) {
    view.parameters.emplace_back(item.key(), item.value());
  }
  view.buffers = model.buffers();
  view.seed = seed;
  return view;
}

/// Hands saved tensors to the mode, and lets a log look on.
class LoggedMode final : public memopt::SavedTensorSink {
 public:
  LoggedMode(memopt::Mode& mode, memopt::AllocationLog& log) : mode_(mode), log_(log) {}
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return log_.observe(mode_.make_hooks());
  }
  void begin_forward() override { mode_.begin_forward(); }
  void end_forward() override { mode_.end_forward(); }

 private:
  memopt::Mode& mode_;
  memopt::AllocationLog& log_;
};

class Training {
 public:
  Training(const std::string& mode, const TrainingOptions& options)
      : options_(options),
        model_(options.encoder),
        optimizer_(model_->parameters(), options.learning_rate),
        mode_(memopt::make_mode(mode)) {
    mode_->attach(view_of(*model_, options.seed));
  }

  [[nodiscard]] const memopt::Mode& mode() const { return *mode_; }
  [[nodiscard]] std::vector<at::Tensor> weights() const { return model_->parameters(); }

  at::Tensor step() {
    draw_batch(++number_);
    mode_->begin_step(number_);
    at::Tensor loss = forward(*mode_);
    loss.backward();
    mode_->end_step();
    mode_->check_step();
    update();
    return loss.detach();
  }

  at::Tensor measured_step(Outcome& outcome) {
    memopt::AllocationLog log(memopt::cpu_allocation_source(), weights());
    draw_batch(++number_);
    mode_->begin_step(number_);
    LoggedMode sink(*mode_, log);
    walk(log, "step_begin");
    at::Tensor loss = forward(sink);
    walk(log, "forward_end");
    loss.backward();
    walk(log, "backward_end");
    mode_->end_step();
    const memopt::Attribution owned = memopt::attribute(log.close());
    outcome.saved_bytes = owned.boundaries.at(1).at.saved_bytes();
    outcome.peak_saved_bytes = owned.peak_saved_bytes;
    outcome.peak_bytes = owned.peak.live_bytes;
    mode_->check_step();
    update();
    return loss.detach();
  }

 private:
  /// Dropout draws behind it.
  void draw_batch(int64_t number) {
    at::manual_seed(options_.seed + static_cast<uint64_t>(number));
    tokens_ = at::randint(options_.encoder.vocabulary, {options_.batch, options_.encoder.length},
                          at::kLong);
  }

  at::Tensor forward(memopt::SavedTensorSink& sink) {
    const memopt::SavedTensorScope scope(sink);
    const at::Tensor logits = model_->forward(tokens_);
    return at::cross_entropy_loss(logits.flatten(0, 1), tokens_.flip(1).flatten());
  }

  void update() {
    optimizer_.step();
    optimizer_.zero_grad();
  }

  void walk(memopt::AllocationLog& log, const char* name) const {
    log.walk(name, {{memopt::Owner::kWeights, weights()},
                    {memopt::Owner::kInput, {tokens_}},
                    {memopt::Owner::kActivations, mode_->held()}});
  }

  TrainingOptions options_;
  Encoder model_;
  torch::optim::AdamW optimizer_;
  std::unique_ptr<memopt::Mode> mode_;
  at::Tensor tokens_;  ///< [batch, length]
  int64_t number_ = 0;
};

}  // namespace

Outcome train(const std::string& mode, const TrainingOptions& options) {
  at::manual_seed(options.seed);
  Training training(mode, options);
  Outcome outcome;
  outcome.lossless = training.mode().lossless();
  for (int64_t i = 1; i < options.steps; ++i) outcome.losses.push_back(training.step());
  outcome.losses.push_back(training.measured_step(outcome));
  for (const at::Tensor& weight : training.weights()) {
    outcome.weights.push_back(weight.detach().clone());
  }
  return outcome;
}

}  // namespace example
