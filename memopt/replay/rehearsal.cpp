#include "memopt/replay/rehearsal.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/record/step_graph.h"
#include "memopt/replay/execution.h"

namespace noisemark::memopt {

class Rehearsal::State {
 public:
  State(std::shared_ptr<const StepGraph> graph, const EncodeKey& key,
        std::shared_ptr<DeviceDoubt> doubt)
      : graph_(std::move(graph)), key_(key), doubt_(std::move(doubt)), path_(*graph_) {}

  SlotId pack(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const auto slot = static_cast<SlotId>(saved_.size());
    departed_ = departed_ || saved_.size() >= graph_->slots.size() || !fits(tensor, slot);
    if (departed_) return kNone;
    saved_.push_back(tensor.tensor_data());
    return slot;
  }

  void rehearse(const std::shared_ptr<const TreatmentPlan>& plan) {
    const std::lock_guard lock(mutex_);
    asked_.clear();
    slots_.clear();
    refused_.clear();
    if (plan == nullptr) return;
    PlanExecution execution(plan, key_, PlanExecution::Purpose::kRehearse, doubt_);
    for (const at::Tensor& tensor : saved_) {
      slots_.push_back(execution.make_hooks());
      slots_.back()->call_pack_hook(tensor);
    }
    execution.end_forward();
    refused_ = execution.refused();
  }

  [[nodiscard]] std::vector<Refusal> refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

  [[nodiscard]] bool begins_with(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    return !graph_->slots.empty() && fits(tensor, 0);
  }
  [[nodiscard]] bool departed() const {
    const std::lock_guard lock(mutex_);
    return departed_ && !ended_;
  }

  at::Tensor unpack(SlotId slot, KeepingHooks& kept) {
    torch::autograd::SavedVariableHooks* rehearsed = nullptr;
    {
      const std::lock_guard lock(mutex_);
      asked_.insert(slot);
      if (slot != kNone && !slots_.empty()) rehearsed = slots_[static_cast<size_t>(slot)].get();
    }
    return rehearsed == nullptr || kept.replaced() ? kept.call_unpack_hook()
                                                   : rehearsed->call_unpack_hook();
  }

  [[nodiscard]] bool asked() const {
    const std::lock_guard lock(mutex_);
    return !asked_.empty();
  }
  void note_measured() {
    const std::lock_guard lock(mutex_);
    measured_.insert(asked_.begin(), asked_.end());
  }
  [[nodiscard]] std::vector<SlotId> unmeasured() const {
    const std::lock_guard lock(mutex_);
    std::vector<SlotId> slots;
    for (size_t slot = 0; slot < graph_->slots.size(); ++slot) {
      if (measured_.count(static_cast<SlotId>(slot)) == 0) {
        slots.push_back(static_cast<SlotId>(slot));
      }
    }
    return slots;
  }
  [[nodiscard]] bool complete() const {
    const std::lock_guard lock(mutex_);
    return !departed_ && saved_.size() == graph_->slots.size();
  }
  void end_forward() {
    const std::lock_guard lock(mutex_);
    path_.end();
  }
  void end() {
    rehearse(nullptr);
    const std::lock_guard lock(mutex_);
    saved_.clear();
    departed_ = ended_ = true;
  }

 private:
  /// A plan may round what the slot saves, and only for the call that the rounding was chosen for.
  [[nodiscard]] bool fits(const at::Tensor& tensor, SlotId slot) {
    const bool may_round = !graph_->slots[static_cast<size_t>(slot)].exact;
    return path_.fits(tensor, slot) && (!may_round || path_.is_saved_by_the_same(slot));
  }

  const std::shared_ptr<const StepGraph> graph_;
  const EncodeKey key_;
  const std::shared_ptr<DeviceDoubt> doubt_;
  PathMatch path_;
  mutable std::mutex mutex_;
  std::vector<at::Tensor> saved_;                                            ///< one for each slot
  std::vector<std::unique_ptr<torch::autograd::SavedVariableHooks>> slots_;  ///< the plan's hooks
  std::vector<Refusal> refused_;
  std::set<SlotId> asked_;     ///< slots from rehearse() on; kNone: a tensor that no slot is for
  std::set<SlotId> measured_;  ///< slots that a backward asked for whose gradient was measured
  bool departed_ = false;
  bool ended_ = false;
};

class Rehearsal::Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(std::shared_ptr<State> state) : state_(std::move(state)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    slot_ = state_->pack(tensor);
    kept_.call_pack_hook(tensor);
  }
  at::Tensor call_unpack_hook() override { return state_->unpack(slot_, kept_); }

 private:
  std::shared_ptr<State> state_;
  SlotId slot_ = kNone;
  KeepingHooks kept_;
};

Rehearsal::Rehearsal(std::shared_ptr<const StepGraph> graph, const EncodeKey& key,
                     std::shared_ptr<DeviceDoubt> doubt)
    : state_(std::make_shared<State>(std::move(graph), key, std::move(doubt))) {}

Rehearsal::~Rehearsal() {
  state_->end();
}

std::unique_ptr<torch::autograd::SavedVariableHooks> Rehearsal::make_hooks() {
  return std::make_unique<Hooks>(state_);
}

void Rehearsal::rehearse(const std::shared_ptr<const TreatmentPlan>& plan) {
  state_->rehearse(plan);
}

std::vector<Refusal> Rehearsal::refused() const {
  return state_->refused();
}

bool Rehearsal::asked() const {
  return state_->asked();
}

void Rehearsal::note_measured() {
  state_->note_measured();
}

std::vector<SlotId> Rehearsal::unmeasured() const {
  return state_->unmeasured();
}

bool Rehearsal::begins_with(const at::Tensor& tensor) {
  return state_->begins_with(tensor);
}

bool Rehearsal::departed() const {
  return state_->departed();
}

bool Rehearsal::complete() const {
  return state_->complete();
}

void Rehearsal::end_forward() {
  state_->end_forward();
}

void Rehearsal::end() {
  state_->end();
}

std::string words_of(const std::exception& error) {
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  return of_libtorch == nullptr ? error.what() : of_libtorch->what_without_backtrace();
}

namespace {

double squared_norm(const at::Tensor& tensor) {
  const double norm = at::linalg_vector_norm(real_elements(tensor), 2, at::OptionalIntArrayRef(),
                                             false, at::kDouble)
                          .item<double>();
  return norm * norm;
}

/// The difference of a gradient that may be missing on either side.
double squared_distance(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() && !b.defined()) return 0;
  if (!a.defined() || !b.defined()) return squared_norm(a.defined() ? a : b);
  return squared_norm(real_elements(a).to(at::kDouble) - real_elements(b).to(at::kDouble));
}

/// Returns the root of their ratio; infinite where that is not finite.
double relative_error(double squared_difference, double squared_exact) {
  if (squared_difference == 0) return 0;
  const double error = std::sqrt(squared_difference / squared_exact);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

/// While alive, backward finds parameters without gradients: what a function accumulates whose
/// backward calls backward itself is kept from those of the program, which come back untouched.
class GradientsAside {
 public:
  explicit GradientsAside(const std::vector<at::Tensor>& parameters) : parameters_(parameters) {
    for (const at::Tensor& parameter : parameters_) {
      aside_.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    }
  }
  ~GradientsAside() {
    for (size_t i = 0; i < aside_.size(); ++i) {
      parameters_[i].mutable_grad() = std::move(aside_[i]);
    }
  }
  GradientsAside(const GradientsAside&) = delete;
  GradientsAside& operator=(const GradientsAside&) = delete;

 private:
  const std::vector<at::Tensor>& parameters_;
  std::vector<at::Tensor> aside_;
};

bool has_version(const at::Tensor& tensor) {
  return form_of(tensor) != MemoryForm::kOther && !tensor.is_inference();
}

/// The part of an expanded tensor that has memory of its own, which alone can be written.
at::Tensor without_repeats(at::Tensor tensor) {
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.stride(d) == 0 && tensor.size(d) > 1) tensor = tensor.narrow(d, 0, 1);
  }
  return tensor;
}

/// Puts a tensor back as it was, without a trace in its version.
class TensorAside {
 public:
  explicit TensorAside(const at::Tensor& tensor)
      : tensor_(tensor),
        before_(without_repeats(tensor.tensor_data()).clone()),
        version_(tensor._version()) {}
  /// Looks at the bits, which a hook may change past the version.
  void look() {
    written_ = has_new_version() || !tensor_.sizes().equals(sizes_) ||
               !same_bits(without_repeats(tensor_.tensor_data()).clone(), before_);
  }
  [[nodiscard]] bool written() const { return written_.value_or(has_new_version()); }
  [[nodiscard]] const at::Tensor& tensor() const { return tensor_; }
  void put_back() const {
    if (!written() || !tensor_.sizes().equals(sizes_)) return;
    without_repeats(tensor_.tensor_data()).copy_(before_);
    c10::VariableVersion version = torch::autograd::impl::version_counter(tensor_);
    version.set_version(version_);
  }

 private:
  [[nodiscard]] bool has_new_version() const { return tensor_._version() != version_; }

  at::Tensor tensor_;
  at::Tensor before_;
  std::vector<int64_t> sizes_ = tensor_.sizes().vec();
  int64_t version_;
  std::optional<bool> written_;  ///< is empty where nobody looked, because backward threw
};

/// The state of the generator from which a device's operators draw by default.
class GeneratorAside {
 public:
  explicit GeneratorAside(c10::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  void put_back() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

/// While alive, backward may write tensors of the model and draw random numbers. Then they are
/// again as before, and `model` is left with what was written.
class ModelAside {
 public:
  ModelAside(std::vector<at::Tensor>& model, c10::Device device) : model_(model) {
    const c10::NoGradGuard no_grad;
    for (const at::Tensor& tensor : model_) {
      if (has_version(tensor)) tensors_.emplace_back(tensor);
    }
    generators_.emplace_back(at::kCPU);
    if (!device.is_cpu()) generators_.emplace_back(device);
  }
  ~ModelAside() {
    const c10::NoGradGuard no_grad;
    model_.clear();
    for (const TensorAside& aside : tensors_) {
      if (aside.written()) model_.push_back(aside.tensor());
      aside.put_back();
    }
    for (GeneratorAside& aside : generators_) aside.put_back();
  }
  void look() {
    for (TensorAside& aside : tensors_) aside.look();
  }
  ModelAside(const ModelAside&) = delete;
  ModelAside& operator=(const ModelAside&) = delete;

 private:
  std::vector<at::Tensor>& model_;
  std::vector<TensorAside> tensors_;
  std::vector<GeneratorAside> generators_;
};

}  // namespace

GradientProbe::GradientProbe(Rehearsal& rehearsal, const BackwardAgain& again,
                             std::vector<at::Tensor> parameters, std::vector<at::Tensor> model)
    : rehearsal_(rehearsal),
      again_(again),
      parameters_(std::move(parameters)),
      model_(std::move(model)) {
  // A backward that is asked for no gradient accumulates those of all leaves.
  if (parameters_.empty() || !rehearsal_.complete()) return;
  rehearsal_.rehearse(nullptr);
  try {
    exact_ = run();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception&) {
    failed_ = true;
    return;
  }
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& gradient : exact_) {
    if (gradient.defined()) exact_squared_ += squared_norm(gradient);
  }
  usable_ = rehearsal_.asked() && std::isfinite(exact_squared_) && exact_squared_ > 0;
  if (usable_) rehearsal_.note_measured();
}

double GradientProbe::error_of(const std::shared_ptr<const TreatmentPlan>& plan) {
  rehearsal_.rehearse(plan);
  refused_ = rehearsal_.refused();
  const std::vector<double> squared = squared_differences();
  rehearsal_.rehearse(nullptr);
  if (!std::isfinite(exact_squared_)) return 0;
  return relative_error(std::accumulate(squared.begin(), squared.end(), 0.0), exact_squared_);
}

double GradientProbe::error_when_repeated() {
  const bool in_order = std::all_of(parameters_.begin(), parameters_.end(),
                                    [](const at::Tensor& one) { return one.is_cpu(); });
  if (!in_order || !std::isfinite(exact_squared_)) return error_of(/*plan=*/nullptr);
  rehearsal_.rehearse(nullptr);
  const std::vector<double> squared = squared_differences();
  const c10::NoGradGuard no_grad;
  double largest = 0;
  for (size_t i = 0; i < squared.size(); ++i) {
    const double exact = exact_[i].defined() ? squared_norm(exact_[i]) : 0;
    largest = std::max(largest, relative_error(squared[i], exact));
  }
  return largest;
}

/// Runs backward again. Returns how far each parameter's gradient is from the exact one.
std::vector<double> GradientProbe::squared_differences() {
  const std::vector<at::Tensor> gradients = run_again();
  const c10::NoGradGuard no_grad;
  std::vector<double> squared;
  for (size_t i = 0; i < gradients.size(); ++i) {
    squared.push_back(squared_distance(gradients[i], exact_[i]));
  }
  return squared;
}

/// Throws where the first run spent what backward reads: the program's own would lack it too.
std::vector<at::Tensor> GradientProbe::run_again() {
  try {
    return run();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    throw BackwardNotRepeatable(
        "backward throws when it is run again to measure what rounding does to its gradient: " +
        words_of(error) + ". Clear the gradients and take the step again: from now on everything " +
        "is kept. A budget without an error runs backward once");
  }
}

std::vector<at::Tensor> GradientProbe::run() {
  ++passes_;
  const GradientsAside aside(parameters_);
  ModelAside model_aside(model_, parameters_.empty() ? at::kCPU : parameters_[0].device());
  std::vector<at::Tensor> gradients = again_(parameters_);
  const c10::NoGradGuard no_grad;
  model_aside.look();
  for (size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& accumulated = parameters_[i].grad();
    if (!accumulated.defined()) continue;
    gradients[i] = gradients[i].defined() ? gradients[i] + accumulated : accumulated;
  }
  return gradients;
}

}  // namespace noisemark::memopt
