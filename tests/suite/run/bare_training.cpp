#include "tests/suite/run/bare_training.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "baselines/baseline.h"
#include "memopt/accounting/allocation_source.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "suite/random/counter_rng.h"
#include "suite/train/observer.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

std::shared_ptr<Denoiser> make_model(const SessionOptions& options) {
  at::manual_seed(options.spec.definition.seed);
  const baselines::Execution& execution = options.spec.baseline.execution;
  std::shared_ptr<Denoiser> model = make_denoiser(options.spec.definition.model, execution.ops());
  model->to(options.spec.device);
  return model;
}

LoaderOptions loader_options(const SessionOptions& options) {
  LoaderOptions loader;
  loader.threads = options.loader_threads;
  loader.last_step = options.spec.definition.train.steps;
  loader.pinned = options.spec.device.is_cuda();
  return loader;
}

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

BareTraining::BareTraining(const SessionOptions& options, Accounting accounting)
    : definition_(options.spec.definition),
      spec_(options.spec),
      model_(make_model(options)),
      process_(definition_.diffusion, spec_.device),
      adam_(named_parameters(*model_), definition_.optimizer),
      ema_(named_parameters(*model_), definition_.ema),
      loader_(options.dataset, definition_, loader_options(options)) {
  if (accounting == Accounting::kNone) return;
  static_cast<void>(memopt::find_allocation_source(spec_.device));  // a GPU's is attached by it
  if (accounting == Accounting::kFollowed) return;
  probe_.emplace(
      *none_, [this] { return roots(); }, spec_.device);
  observers_.push_back(&*probe_);
}

double BareTraining::step() {
  if (probe_) probe_->arm(step_);
  for (StepObserver* observer : observers_) observer->on_step_begin(step_);
  load_batch();
  at::manual_seed(derive_seed(definition_.seed, Stream::kDropout, static_cast<uint64_t>(step_)));
  backward_of_batch();
  update();
  const auto loss = loss_.item<double>();
  loss_ = at::Tensor();
  for (StepObserver* observer : observers_) observer->on_step_end(step_);
  ++step_;
  return loss;
}

void BareTraining::load_batch() {
  const PhaseScope phase(observers_, Phase::kData);
  batch_ = loader_.next();
  for (at::Tensor* tensor : {&batch_.images, &batch_.timesteps, &batch_.noise}) {
    *tensor = tensor->to(spec_.device, /*non_blocking=*/true);
  }
}

void BareTraining::backward_of_batch() {
  {
    const PhaseScope phase(observers_, Phase::kForward);
    at::Tensor noisy, target;
    {
      const at::NoGradGuard no_grad;
      noisy = process_.q_sample(batch_.images, batch_.timesteps, batch_.noise);
      target = process_.target(batch_.images, batch_.timesteps, batch_.noise);
    }
    std::optional<memopt::SavedTensorScope> scope;
    if (probe_) scope.emplace(probe_->sink());
    at::Tensor prediction;
    {
      const AutocastGuard autocast(spec_.precision, spec_.device);
      prediction = model_->forward(noisy, batch_.timesteps);
    }
    loss_ = process_.training_loss(prediction.to(at::kFloat), target, batch_.timesteps);
  }
  const PhaseScope phase(observers_, Phase::kBackward);
  loss_.backward();
  loss_ = loss_.detach();
}

void BareTraining::update() {
  {
    const PhaseScope phase(observers_, Phase::kOptimizer);
    const std::vector<at::Tensor> gradients = adam_.gradients();
    clip_gradients(gradients, definition_.optimizer.clip_norm, norm_of(gradients));
    adam_.step();
    adam_.release_gradients();
  }
  const PhaseScope phase(observers_, Phase::kEma);
  ema_.update();
}

OwnerRoots BareTraining::roots() const {
  OwnerRoots roots;
  roots.parameters = tensors_of(named_parameters(*model_));
  std::vector<at::Tensor>& weights = roots.held[memopt::Owner::kWeights];
  weights = roots.parameters;
  for (const at::Tensor& buffer : model_->buffers()) weights.push_back(buffer);
  for (const auto& [name, buffer] : process_.buffers()) weights.push_back(buffer);
  roots.held[memopt::Owner::kOptimizer] = tensors_of(adam_.state());
  roots.held[memopt::Owner::kEma] = tensors_of(ema_.shadows());
  for (const at::Tensor& tensor : {batch_.images, batch_.timesteps, batch_.noise}) {
    if (tensor.defined()) roots.held[memopt::Owner::kInput].push_back(tensor);
  }
  if (loss_.defined()) roots.held[memopt::Owner::kActivations].push_back(loss_);
  return roots;
}

}  // namespace noisemark::suite
