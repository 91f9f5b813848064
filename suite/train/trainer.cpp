#include "suite/train/trainer.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/device/repeated_work.h"
#include "reports/base/error.h"
#include "suite/models/layers.h"
#include "suite/random/counter_rng.h"
#include "suite/train/non_finite.h"
#include "suite/train/observer.h"

namespace noisemark::suite {

NamedTensors named_parameters(const Denoiser& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) {
    parameters.emplace_back(item.key(), item.value());
  }
  return parameters;
}

namespace {

/// Moves the model to the device, type and memory format of `options`, ready to train.
std::shared_ptr<Denoiser> prepare_model(std::shared_ptr<Denoiser> model,
                                        const TrainerOptions& options) {
  place_model(*model, options.device, options.precision.weights, options.channels_last);
  model->train();
  if (options.group) {
    const at::NoGradGuard no_grad;
    options.group->broadcast(model->parameters());
    options.group->broadcast(model->buffers());
  }
  return model;
}

bool is_pipeline(const TrainerOptions& options) {
  return options.group && options.pipeline.micro_batches > 0;
}

std::unique_ptr<Shards> make_shards(const TrainerOptions& options, const Denoiser& model,
                                    const Pipeline* pipeline) {
  if (pipeline != nullptr) return std::make_unique<Shards>(options.group, pipeline->shares());
  if (!options.group || !options.shard_optimizer) return nullptr;
  return std::make_unique<Shards>(options.group, model.parameters());
}

NamedTensors prefixed(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) result.emplace_back(prefix + name, tensor.detach());
  return result;
}

/// Adam::state() has for each weight both moments, then the number of steps.
constexpr size_t kPartsOfState = 3;

std::vector<at::Tensor> without_names(const NamedTensors& tensors) {
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : tensors) all.push_back(tensor.detach());
  return all;
}

BatchShare share_of(const TrainerOptions& options) {
  return options.group && !is_pipeline(options) ? options.group->share() : BatchShare{};
}

/// Throws Error, exit code 2, for what ranks cannot share.
const TrainerOptions& checked(const TrainerOptions& options, const Definition& definition) {
  require_equal_shares(share_of(options).ranks, definition.train.batch,
                       definition.train.accumulation);
  if (is_pipeline(options)) {
    require_pipeline(options.pipeline.micro_batches, definition, options.precision);
  }
  if (options.group && options.make_graph) {
    throw bad_input("--baseline", "cuda-graph", "several ranks", "one rank");
  }
  return options;
}

/// Parameters of which `part` is made next.
NamedTensors announced(BuildObserver* observer, memopt::Owner part, NamedTensors parameters) {
  if (observer != nullptr) observer->on_part(part);
  return parameters;
}

NamedTensors with_buffers(NamedTensors weights, const Denoiser& model) {
  for (const auto& item : model.named_buffers()) weights.emplace_back(item.key(), item.value());
  return weights;
}

/// Looks at the largest absolute value of each, which unlike the sum of squares cannot overflow.
bool each_finite(const std::vector<at::Tensor>& tensors) {
  constexpr double kMaximum = std::numeric_limits<double>::infinity();
  return all_finite(at::stack(at::_foreach_norm(tensors, kMaximum)));
}

}  // namespace

/// Whatever ends a step, nothing of it stays behind.
class [[nodiscard]] Trainer::StepCleanup {
 public:
  explicit StepCleanup(Trainer& trainer) : trainer_(trainer) {}
  ~StepCleanup() {
    trainer_.adam_.release_gradients();
    trainer_.micro_ = {};
    trainer_.batch_ = {};
    trainer_.losses_.clear();
    trainer_.roots_.clear();
  }
  StepCleanup(const StepCleanup&) = delete;
  StepCleanup& operator=(const StepCleanup&) = delete;

 private:
  Trainer& trainer_;
};

Trainer::Trainer(const Definition& definition, std::shared_ptr<Denoiser> model,
                 std::shared_ptr<const Dataset> dataset, memopt::Mode& mode,
                 const TrainerOptions& options, BuildObserver* observer)
    : definition_(definition),
      options_(checked(options, definition)),
      model_(prepare_model(std::move(model), options)),
      dataset_(std::move(dataset)),
      mode_(mode),
      process_(definition.diffusion, options.device, options.precision.weights),
      pipeline_(make_pipeline()),
      shards_(make_shards(options, *model_, pipeline_.get())),
      adam_(announced(observer, memopt::Owner::kOptimizer, named_parameters(*model_)),
            definition.optimizer, shards_ ? std::optional(shards_->own()) : std::nullopt,
            rate_scale(definition)),
      ema_(announced(observer, memopt::Owner::kEma,
                     shards_ ? pieces_of(named_parameters(*model_), shards_->own())
                             : named_parameters(*model_)),
           definition.ema) {
  if (options_.precision.loss_scaling) scaler_.emplace(options_.device);
  memopt::ModelView view;
  view.parameters = parameters();
  view.seed = definition.seed;
  for (const at::Tensor& buffer : model_->buffers()) view.buffers.push_back(buffer);
  if (pipeline_) {
    view.passes_together = pipeline_->together();
    view.bytes_of_open_pass = pipeline_->bytes_of_open_pass();
  }
  mode_.attach(view);
  if (options_.group && !pipeline_) {
    reducer_ =
        std::make_unique<GradientReducer>(options_.group, model_->parameters(), options_.reduction);
  }
}

std::unique_ptr<Pipeline> Trainer::make_pipeline() const {
  if (!is_pipeline(options_)) return nullptr;
  const ModelConfig& config = definition_.model;
  const at::Tensor x = at::randn({definition_.train.batch / options_.pipeline.micro_batches,
                                  config.channels, config.resolution, config.resolution},
                                 at::device(options_.device).dtype(options_.precision.weights));
  PipelineOptions pipeline = options_.pipeline;
  pipeline.draws_masks = config.dropout > 0;
  const auto format =
      options_.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return std::make_unique<Pipeline>(options_.group, *model_, pipeline, options_.precision,
                                    x.contiguous(format));
}

void Trainer::start_loader() {
  LoaderOptions loader = options_.loader;
  loader.first_step = next_step_;
  loader.last_step = std::max(definition_.train.steps, next_step_ + 1);
  loader.pinned = options_.device.is_cuda();
  loader.share = share_of(options_);
  loader_ = std::make_unique<Loader>(dataset_, definition_, loader);
}

void Trainer::resume_at(int64_t step) {
  loader_.reset();
  recorded_ = {};
  next_step_ = step;
  adam_.restore_steps_taken(step);
  ema_.restore_steps_taken(step);
}

int64_t Trainer::exchanged_bytes() const {
  constexpr int64_t kLoss = sizeof(double);
  // The norm of the gradients, or whether each is finite, is a number too.
  if (pipeline_) return pipeline_->given_bytes() + 2 * kLoss;
  if (!reducer_) return 0;
  int64_t weights = 0;
  for (const auto& [name, parameter] : parameters()) {
    weights += static_cast<int64_t>(parameter.nbytes());
  }
  return reducer_->expected_bytes() + kLoss + (shards_ ? weights : 0);
}

NamedTensors Trainer::parameters() const {
  NamedTensors parameters = named_parameters(*model_);
  if (pipeline_) {
    std::erase_if(parameters, [&](const auto& one) { return !pipeline_->owns(one.first); });
  }
  return parameters;
}

NamedTensors Trainer::whole_parameters() {
  NamedTensors whole = named_parameters(*model_);
  if (!std::exchange(has_others_, true)) {
    pipeline_->allocate_others();
    shards_->gather(without_names(whole));
  }
  return whole;
}

NamedTensors Trainer::whole_weights() {
  return with_buffers(whole_parameters(), *model_);
}

NamedTensors Trainer::weights() const {
  return with_buffers(parameters(), *model_);
}

/// All ranks' pieces of what is laid out as the parameters are.
std::vector<at::Tensor> Trainer::gathered(const std::vector<at::Tensor>& own) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> whole;
  for (const at::Tensor& parameter : model_->parameters()) {
    whole.push_back(at::empty_like(parameter.detach()));
  }
  const Pieces& pieces = shards_->own();
  for (size_t i = 0; i < pieces.size(); ++i) {
    piece_of(whole[pieces[i].tensor], pieces[i]).copy_(own[i]);
  }
  shards_->gather(whole);
  return whole;
}

NamedTensors Trainer::average() const {
  if (!shards_ || ema_.shadows().empty()) return ema_.shadows();
  const std::vector<at::Tensor> whole = gathered(without_names(ema_.shadows()));
  NamedTensors average = named_parameters(*model_);
  for (size_t i = 0; i < average.size(); ++i) average[i].second = whole[i];
  return average;
}

NamedTensors Trainer::averaged_weights() const {
  const NamedTensors whole = average();
  return whole.empty() ? NamedTensors{} : with_buffers(whole, *model_);
}

NamedTensors Trainer::whole_optimizer_state() const {
  const NamedTensors own = adam_.state();
  if (!shards_) return own;
  std::vector<at::Tensor> first, second;
  for (size_t i = 0; i < own.size(); i += kPartsOfState) {
    first.push_back(own[i].second);
    second.push_back(own[i + 1].second);
  }
  first = gathered(first);
  second = gathered(second);
  const NamedTensors all = named_parameters(*model_);
  NamedTensors whole;
  for (size_t i = 0; i < all.size(); ++i) {
    whole.emplace_back("adam.exp_avg." + all[i].first, first[i]);
    whole.emplace_back("adam.exp_avg_sq." + all[i].first, second[i]);
    whole.emplace_back("adam.step." + all[i].first, own[kPartsOfState - 1].second.clone());
  }
  return whole;
}

NamedTensors Trainer::whole_state() {
  NamedTensors state = prefixed("model.", whole_weights());
  const auto append = [&state](const NamedTensors& more) {
    state.insert(state.end(), more.begin(), more.end());
  };
  append(whole_optimizer_state());
  append(prefixed("ema.", average()));
  if (scaler_) append(scaler_->state());
  return state;
}

void Trainer::take_own_pieces(const NamedTensors& whole) {
  const auto named = [&](const std::string& name) -> const at::Tensor& {
    const auto found = std::find_if(whole.begin(), whole.end(),
                                    [&](const auto& one) { return one.first == name; });
    TORCH_CHECK(found != whole.end(), "a whole state, but got none of ", name);
    return found->second;
  };
  const NamedTensors own = adam_.state();
  const Pieces& pieces = shards_->own();
  for (size_t i = 0; i < own.size(); ++i) {
    const at::Tensor& from = named(own[i].first);
    own[i].second.copy_(own[i].second.dim() == 0 ? from
                                                 : piece_of(from, pieces[i / kPartsOfState]));
  }
  for (size_t i = 0; i < ema_.shadows().size(); ++i) {
    const auto& [name, shadow] = ema_.shadows()[i];
    shadow.copy_(piece_of(named("ema." + name), pieces[i]));
  }
}

void Trainer::restore(const NamedTensors& whole, int64_t step) {
  const at::NoGradGuard no_grad;
  if (options_.group) {
    options_.group->broadcast(without_names(whole));
    step = std::stoll(options_.group->exchange(std::to_string(step)).front());
  }
  if (shards_) take_own_pieces(whole);
  resume_at(step);
}

std::vector<at::Tensor> Trainer::inputs() const {
  std::vector<at::Tensor> tensors{batch_.images,    batch_.timesteps, batch_.noise, micro_.images,
                                  micro_.timesteps, micro_.noise,     micro_.noisy, micro_.target};
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

std::vector<at::Tensor> Trainer::step_tensors() const {
  std::vector<at::Tensor> tensors{micro_.prediction, micro_.loss};
  tensors.insert(tensors.end(), losses_.begin(), losses_.end());
  tensors.insert(tensors.end(), roots_.begin(), roots_.end());
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

void Trainer::load_batch() {
  if (!loader_) start_loader();
  batch_ = loader_->next();
  const auto move = [&](const at::Tensor& tensor) {
    return tensor.to(options_.device, /*non_blocking=*/true);
  };
  batch_.images = move(batch_.images).to(options_.precision.weights);
  batch_.noise = move(batch_.noise).to(options_.precision.weights);
  batch_.timesteps = move(batch_.timesteps);
  if (options_.fault.halved_from.value_or(next_step_ + 1) <= next_step_) halve_batch();
  if (options_.channels_last) {
    batch_.images = batch_.images.contiguous(at::MemoryFormat::ChannelsLast);
    batch_.noise = batch_.noise.contiguous(at::MemoryFormat::ChannelsLast);
  }
}

void Trainer::halve_batch() {
  for (at::Tensor* tensor : {&batch_.images, &batch_.timesteps, &batch_.noise}) {
    *tensor = tensor->narrow(0, 0, tensor->size(0) / 2).clone();
  }
}

void Trainer::seed_dropout() const {
  at::manual_seed(
      derive_seed(definition_.seed, Stream::kDropout, static_cast<uint64_t>(next_step_)));
}

void Trainer::prepare(int64_t micro) {
  const int64_t size = batch_.images.size(0) / micro_batches();
  micro_.images = batch_.images.narrow(0, micro * size, size);
  micro_.timesteps = batch_.timesteps.narrow(0, micro * size, size);
  micro_.noise = batch_.noise.narrow(0, micro * size, size);
  const at::NoGradGuard no_grad;
  micro_.noisy = process_.q_sample(micro_.images, micro_.timesteps, micro_.noise);
  micro_.target = process_.target(micro_.images, micro_.timesteps, micro_.noise);
}

std::unique_ptr<BrokenSaving> Trainer::broken_saving(memopt::SavedTensorSink& sink) const {
  if (!breaks_saving(options_.fault) || mode_.name() == "none") return nullptr;
  return std::make_unique<BrokenSaving>(sink, options_.fault, model_->parameters(),
                                        1 - definition_.model.dropout);
}

void Trainer::forward(memopt::SavedTensorSink& sink) {
  if (const int64_t bytes = options_.fault.leaked_bytes; bytes > 0) {
    leaked_.push_back(at::zeros({bytes}, at::device(options_.device).dtype(at::kByte)));
  }
  const memopt::SavedTensorScope scope(sink);
  predict();
}

void Trainer::predict() {
  {
    const AutocastGuard autocast(options_.precision, options_.device);
    const ShareGuard share(share_of(options_));
    micro_.prediction = model_->forward(micro_.noisy, micro_.timesteps);
  }
  measure_loss();
}

void Trainer::measure_loss() {
  const at::Tensor prediction = micro_.prediction.to(options_.precision.weights);
  micro_.loss = process_.training_loss(prediction, micro_.target, micro_.timesteps);
  if (options_.fault.loss_factor) micro_.loss = micro_.loss * *options_.fault.loss_factor;
}

int64_t Trainer::micro_batches() const {
  return pipeline_ ? pipeline_->options().micro_batches : definition_.train.accumulation;
}

at::Tensor Trainer::root_of(const at::Tensor& loss) const {
  const bool divides = micro_batches() > 1 && !options_.fault.undivided_loss;
  const at::Tensor root = divides ? loss / static_cast<double>(micro_batches()) : loss;
  return scaler_ ? scaler_->scale(root) : root;
}

void Trainer::backward(bool last) {
  const at::Tensor root = root_of(micro_.loss);
  if (reducer_) return reducer_->backward(root, last);
  root.backward();
}

std::string Trainer::operator_not_finite(int64_t micro) {
  const at::NoGradGuard no_grad;
  // Masks of dropout are drawn one micro-batch after the other.
  seed_dropout();
  try {
    for (int64_t before = 0; before < micro; ++before) {
      prepare(before);
      predict();
    }
    const NonFiniteWatch watch;
    prepare(micro);
    predict();
    return watch.first();
  } catch (const std::exception&) {
    return "";  // for want of memory, say: that the step has failed is the better news
  }
}

std::string Trainer::not_finite_in_forward(int64_t micro) {
  const int64_t all = definition_.train.accumulation;
  const std::string which =
      all == 1 ? "" : " of micro-batch " + std::to_string(micro + 1) + " of " + std::to_string(all);
  // Nothing but the loss is left of the micro-batches before the last one.
  const bool known = micro + 1 == all && !all_finite(micro_.prediction);
  const std::string maker = operator_not_finite(micro);
  if (!maker.empty()) return "output of " + maker + " in forward" + which;
  return (known ? "prediction" : "loss") + which;
}

std::string Trainer::gradient_not_finite() const {
  // No gradient is left of a repeated step.
  if (!micro_.loss.defined()) return "norm of the gradients";
  for (const auto& [name, parameter] : in_backward_order(micro_.loss, parameters())) {
    if (!all_finite(parameter.grad())) return "gradient of " + name;
  }
  return "norm of the gradients";
}

std::string Trainer::gradient_of_stage_not_finite() const {
  const NamedTensors own = parameters();
  const auto bad = std::find_if(own.rbegin(), own.rend(),
                                [](const auto& one) { return !all_finite(one.second.grad()); });
  return bad == own.rend() ? "" : "gradient of " + bad->first;
}

std::string Trainer::own_gradient_not_finite() {
  if (!reducer_) return gradient_not_finite();
  // The means over the ranks lie where this rank's gradients were, so they are made once more.
  seed_dropout();
  try {
    for (int64_t micro = 0; micro < micro_batches(); ++micro) {
      prepare(micro);
      predict();
      const NamedTensors named = in_backward_order(micro_.loss, parameters());
      std::vector<at::Tensor> tensors;
      for (const auto& [name, tensor] : named) tensors.push_back(tensor);
      const auto gradients = torch::autograd::grad({root_of(micro_.loss)}, tensors);
      for (size_t i = 0; i < named.size(); ++i) {
        if (!all_finite(gradients[i])) return "gradient of " + named[i].first;
      }
    }
  } catch (const std::exception&) {  // for want of memory, say: the means are left
  }
  return "";
}

std::string Trainer::own_non_finite() {
  for (const auto& [name, parameter] : parameters()) {
    if (!all_finite(parameter)) return "weight " + name;
  }
  if (!all_finite(batch_.images)) return "input images";
  const auto bad = std::find_if(losses_.begin(), losses_.end(),
                                [](const at::Tensor& loss) { return !all_finite(loss); });
  if (pipeline_) return bad != losses_.end() ? "loss" : gradient_of_stage_not_finite();
  if (bad != losses_.end()) return not_finite_in_forward(bad - losses_.begin());
  return own_gradient_not_finite();
}

std::string Trainer::first_non_finite() {
  if (!options_.group) return own_non_finite();
  std::vector<std::string> found = options_.group->exchange(own_non_finite());
  const bool differ =
      std::adjacent_find(found.begin(), found.end(), std::not_equal_to<>()) != found.end();
  for (size_t rank = 0; differ && !pipeline_ && rank < found.size(); ++rank) {
    if (!found[rank].empty()) found[rank] += " on rank " + std::to_string(rank);
  }
  // The order is that of a step: what is not finite in a forward pass makes gradients of all ranks
  // so.
  for (const char* kind : {"weight ", "input ", "output ", "prediction", "loss"}) {
    for (const std::string& one : found) {
      if (one.starts_with(kind)) return one;
    }
  }
  // In a pipeline gradients of the last stage come first.
  if (pipeline_) std::reverse(found.begin(), found.end());
  for (const std::string& one : found) {
    if (!one.empty()) return one;
  }
  return pipeline_ ? "norm of the gradients" : gradient_not_finite();
}

bool Trainer::gradients_finite(const StepRecord& record) const {
  const at::NoGradGuard no_grad;
  if (record.grad_norm) return std::isfinite(*record.grad_norm);
  const bool finite = each_finite(adam_.gradients());
  return pipeline_ ? options_.group->mean(finite ? 0 : 1) == 0 : finite;
}

void Trainer::throw_if_not_finite(const StepRecord& record) {
  if (std::isfinite(record.loss) && gradients_finite(record)) return;
  throw NonFinite(record.step, first_non_finite());
}

void Trainer::throw_if_beyond_scaling(const StepRecord& record) {
  if (std::isfinite(record.loss) || scaler_->current_scale() >= kLeastScale) return;
  throw NonFinite(record.step, first_non_finite());
}

/// The norm of the gradients of all stages.
at::Tensor Trainer::joint_norm() const {
  at::Tensor norm = norm_of(adam_.gradients());
  if (!pipeline_) return norm;
  const double own = norm.item<double>();
  const auto stages = static_cast<double>(options_.group->rank().ranks);
  return norm.fill_(std::sqrt(options_.group->mean(own * own) * stages));
}

void Trainer::update_weights(StepRecord& record) {
  std::optional<at::Tensor> found_inf;
  if (scaler_) {
    found_inf = scaler_->unscale(adam_.gradients());
    if (!std::isfinite(record.loss)) found_inf->fill_(1);
  }
  if (definition_.optimizer.clip_norm > 0) {
    const at::Tensor norm = joint_norm();
    clip_gradients(adam_.gradients(), definition_.optimizer.clip_norm, norm);
    // A scaled step may overflow and is then skipped by the scaler: that is not an error.
    if (!scaler_) record.grad_norm = norm.item<double>();
  }
  if (!scaler_) throw_if_not_finite(record);
  adam_.step(found_inf);
  if (shards_ && !pipeline_) shards_->gather(without_names(parameters()));
  if (!scaler_) return;
  scaler_->update(*found_inf);
  throw_if_beyond_scaling(record);
}

void Trainer::run_micro_batches(const std::vector<StepObserver*>& observers,
                                memopt::SavedTensorSink& sink, StepRecord& record) {
  const ModeStepGuard mode_step(mode_, record.step);
  const std::unique_ptr<BrokenSaving> broken = broken_saving(sink);
  for (int64_t micro = 0; micro < definition_.train.accumulation; ++micro) {
    {
      const PhaseScope phase(observers, Phase::kForward);
      prepare(micro);
      forward(broken ? *broken : sink);
    }
    const PhaseScope phase(observers, Phase::kBackward);
    backward(micro + 1 == definition_.train.accumulation);
    losses_.push_back(micro_.loss.detach());
  }
}

void Trainer::forward_of_stage(int64_t micro, memopt::SavedTensorSink& sink) {
  const bool last = pipeline_->is_last();
  if (last || pipeline_->is_first()) prepare(micro);
  Flow flow = pipeline_->receive(micro, micro_.noisy, micro_.timesteps);
  {
    const memopt::SavedTensorScope scope(sink);
    pipeline_->run(micro, flow);
    if (last) {
      micro_.prediction = flow.h;
      measure_loss();
      roots_[static_cast<size_t>(micro)] = root_of(micro_.loss);
      losses_.push_back(micro_.loss.detach());
    }
  }
  pipeline_->give(micro, flow);
}

void Trainer::run_pipeline(const std::vector<StepObserver*>& observers,
                           memopt::SavedTensorSink& sink, StepRecord& record) {
  const ModeStepGuard mode_step(mode_, record.step);
  const std::unique_ptr<BrokenSaving> broken = broken_saving(sink);
  roots_.assign(static_cast<size_t>(micro_batches()), {});
  const bool in_turn = issued_steps_ < mode_.forwards_until_steady();
  for (const StagePass& pass : pipeline_->passes(in_turn)) {
    if (!pass.backward) {
      const PhaseScope phase(observers, Phase::kForward);
      forward_of_stage(pass.micro, broken ? *broken : sink);
    } else {
      const PhaseScope phase(observers, Phase::kBackward);
      pipeline_->backward(pass.micro, std::exchange(roots_[static_cast<size_t>(pass.micro)], {}));
    }
  }
  const PhaseScope phase(observers, Phase::kBackward);
  pipeline_->finish();
}

double Trainer::mean_loss() const {
  double sum = 0;
  for (const at::Tensor& loss : losses_) sum += loss.item<double>();
  if (pipeline_) {  // the last stage has all, the others none
    const auto stages = static_cast<double>(options_.group->rank().ranks);
    return options_.group->mean(sum / static_cast<double>(micro_batches())) * stages;
  }
  const double mean = sum / static_cast<double>(losses_.size());
  return options_.group ? options_.group->mean(mean) : mean;
}

void Trainer::issued_by_host(const std::vector<StepObserver*>& observers,
                             memopt::SavedTensorSink& sink, StepRecord& record) {
  pipeline_ ? run_pipeline(observers, sink, record) : run_micro_batches(observers, sink, record);
  {
    const PhaseScope phase(observers, Phase::kOptimizer);
    record.loss = mean_loss();
    mode_.check_step();
    if (options_.fault.late_average) ema_.update();
    update_weights(record);
    adam_.release_gradients();
  }
  ++issued_steps_;
  const PhaseScope phase(observers, Phase::kEma);
  if (!options_.fault.late_average) ema_.update();
}

StepRecord Trainer::step(const std::vector<StepObserver*>& observers,
                         memopt::SavedTensorSink* sink) {
  StepRecord record;
  record.step = next_step_;
  if (pipeline_ && std::exchange(has_others_, false)) pipeline_->release_others();
  for (StepObserver* observer : observers) observer->on_step_begin(record.step);
  {
    const StepCleanup cleanup(*this);
    {
      const PhaseScope phase(observers, Phase::kData);
      load_batch();
    }
    // Dropout draws from torch's generator: seeded by the step, so a resumed run draws the same.
    seed_dropout();
    if (repeats(sink)) {
      repeat_step(observers, record);
    } else {
      issued_by_host(observers, sink != nullptr ? *sink : mode_, record);
    }
  }
  ++next_step_;
  for (StepObserver* observer : observers) observer->on_step_end(record.step);
  return record;
}

// The part of the trainer that has a device repeat a recorded step.

namespace {

/// Steps on the stream that is recorded: enough for libraries to make what they need there, and for
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

/// Copies the batch to where the recorded step reads it.
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
    recorded_.norm = norm_of(gradients);
    clip_gradients(gradients, definition_.optimizer.clip_norm, recorded_.norm);
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
  micro_ = {};
  if (scaler_) return throw_if_beyond_scaling(record);
  if (std::isfinite(record.loss) && recorded_.bad.item<double>() == 0) return;
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
