#include "tests/memopt/programs/execute.h"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "memopt/accounting/allocation_log.h"
#include "memopt/accounting/attribution.h"
#include "memopt/accounting/tracking_allocator.h"
#include "memopt/modes/budget_mode.h"
#include "tests/memopt/programs/operators.h"

namespace noisemark::memopt::programs {
namespace {

/// A program throws it itself.
struct Injected : std::runtime_error {
  using std::runtime_error::runtime_error;
};
constexpr const char* kInjected = "thrown by the program";
/// The number of errors of one step up to which a training is not taken for one that is stopped for
/// ever.
constexpr int kMostDetected = 8;

int64_t live_bytes() {
  return cpu_allocation_source().live_bytes();
}

Elements elements_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const at::Tensor dense = tensor.detach().to(at::kDouble).contiguous();
  const double* data = dense.const_data_ptr<double>();
  return {data, data + dense.numel()};
}

std::vector<Elements> elements_of_all(const std::vector<at::Tensor>& tensors) {
  std::vector<Elements> all;
  for (const at::Tensor& tensor : tensors) all.push_back(elements_of(tensor));
  return all;
}

at::Tensor initial(const State& state, at::ScalarType type) {
  if (state.buffer) return at::ones(state.shape, type);
  if (state.shape.size() == 1) return at::randn(state.shape, type).mul_(0.1).add_(1);
  return at::randn(state.shape, type).mul_(state.shape.size() == 2 ? 0.3 : 0.1);
}

/// Hands saved tensors to the mode, and lets a log look on.
class LoggedSink final : public SavedTensorSink {
 public:
  LoggedSink(SavedTensorSink& sink, AllocationLog& log) : sink_(sink), log_(log) {}
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return log_.observe(or_keeping(sink_.make_hooks()));
  }
  void begin_forward() override { sink_.begin_forward(); }
  void end_forward() override { sink_.end_forward(); }

 private:
  SavedTensorSink& sink_;
  AllocationLog& log_;
};

/// Hooks of a program: they keep copies, all in one place, and give copies out.
class OwnSink final : public SavedTensorSink {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return std::make_unique<Hooks>(kept_, next_++);
  }

 private:
  using Kept = std::map<int64_t, at::Tensor>;

  class Hooks final : public torch::autograd::SavedVariableHooks {
   public:
    Hooks(std::shared_ptr<Kept> kept, int64_t number) : kept_(std::move(kept)), number_(number) {}
    ~Hooks() override { kept_->erase(number_); }
    void call_pack_hook(const at::Tensor& tensor) override {
      const at::NoGradGuard no_grad;
      (*kept_)[number_] = tensor.clone();
    }
    at::Tensor call_unpack_hook() override { return kept_->at(number_).clone(); }

   private:
    std::shared_ptr<Kept> kept_;
    int64_t number_;
  };

  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
  int64_t next_ = 0;
};

/// A hook of a tensor, while alive.
class [[nodiscard]] HookOf {
 public:
  HookOf(const at::Tensor& tensor, std::function<at::Tensor(const at::Tensor&)> hook)
      : tensor_(tensor), hook_(tensor_.register_hook(std::move(hook))) {}
  ~HookOf() { tensor_.remove_hook(hook_); }
  HookOf(const HookOf&) = delete;
  HookOf& operator=(const HookOf&) = delete;

 private:
  const at::Tensor tensor_;
  unsigned hook_ = 0;
};

class [[nodiscard]] AutocastGuard {
 public:
  explicit AutocastGuard(bool on) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, on);
  }
  ~AutocastGuard() {
    at::autocast::set_autocast_enabled(at::kCPU, before_);
    at::autocast::clear_cache();
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  bool before_;
};

/// While alive, a backward that reaches the tensor ends with a small forward pass in a scope of the
/// sink, and the backward of that.
class [[nodiscard]] ScopeInBackward {
 public:
  ScopeInBackward(const at::Tensor& tensor, SavedTensorSink& sink) : tensor_(tensor) {
    hook_ = tensor_.register_hook([this, &sink](const at::Tensor& gradient) {
      if (!gradient.defined()) return gradient;
      const at::AutoGradMode grad(true);
      const at::Tensor copy = batch().requires_grad_();
      at::Tensor loss;
      {
        const SavedTensorScope scope(sink);
        loss = at::silu(copy).square().mean();
      }
      loss.backward();
      return gradient + copy.grad();
    });
  }
  ~ScopeInBackward() { tensor_.remove_hook(hook_); }
  ScopeInBackward(const ScopeInBackward&) = delete;
  ScopeInBackward& operator=(const ScopeInBackward&) = delete;

 private:
  /// Returns a copy of the tensor, which is what a batch is to the pass: nobody's to drop.
  [[nodiscard]] at::Tensor batch() const {
    const OwnerScope owner(Owner::kInput);
    return tensor_.detach().clone();
  }

  const at::Tensor tensor_;
  unsigned hook_ = 0;
};

/// Autograd runs the nodes of larger numbers first, and each thread counts its own from 0. Where
/// graphs of several threads are added up, the numbers of this thread come first from now on,
/// whatever it made before: the order of a sum decides its bits.
void number_beyond_other_threads() {
  constexpr uint64_t kMoreThanAThreadMakes = 1 << 16;
  while (at::sequence_number::peek() < kMoreThanAThreadMakes) {
    at::sequence_number::get_and_increment();
  }
}

/// A log follows the operators of threads that have the state of the one that opened it.
void run_on(bool thread, const std::function<void()>& work, bool logged = false) {
  if (!thread) return work();
  std::exception_ptr failure;
  const at::ThreadLocalState state;
  std::thread([&] {
    try {
      std::optional<at::ThreadLocalStateGuard> guard;
      if (logged) guard.emplace(state);
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

class Training {
 public:
  Training(const Program& program, const Execution& execution)
      : program_(program), loop_(program.loop), execution_(execution) {
    number_beyond_other_threads();
    at::manual_seed(program.seed);
    ModelView view;
    for (size_t i = 0; i < program.states.size(); ++i) {
      const State& state = program.states[i];
      states_.push_back(
          initial(state, state_type(program)).requires_grad_(state.trained && !state.buffer));
      if (state.buffer) {
        view.buffers.push_back(states_.back());
      } else {
        view.parameters.emplace_back(name_of(program, i), states_.back());
      }
    }
    const std::vector<at::Tensor> trained = trained_states();
    if (loop_.names_twice && !trained.empty()) view.parameters.emplace_back("tied", trained[0]);
    if (loop_.counts_backwards) view.buffers.push_back(backwards_);
    // A module may register what it does not have.
    view.parameters.emplace_back("none", at::Tensor());
    view.buffers.emplace_back();
    first_moments_.resize(states_.size());
    second_moments_.resize(states_.size());
    view.seed = 5;
    mode_ = execution.make_mode();
    mode_->attach(view);
    if (has_another_mode(loop_)) {
      another_ = make_mode(loop_.another);
      another_->attach(view);
    }
  }

  void run(Trace& trace) {
    for (int step = 1; step <= loop_.steps; ++step) {
      const std::vector<Elements> before = elements_of_all(states_);
      const int64_t gradients = gradients_;
      const auto backwards = backwards_.item<int64_t>();
      try_step(step, trace);
      for (int again = 0; again < kMostDetected && may_take_again(trace); ++again) {
        set_states(before);
        gradients_ = gradients;
        backwards_.fill_(backwards);
        for (at::Tensor& state : states_) state.mutable_grad() = at::Tensor();
        trace.steps.pop_back();
        try_step(step, trace);
      }
      if (!trace.steps.back().error.empty()) break;
    }
    if (const auto* planned = dynamic_cast<const PlannedMode*>(mode_.get())) {
      const PlannedModeReport report = planned->report();
      trace.makes_plans = true;
      trace.missing_reason = report.missing_reason;
      trace.needs_more = report.budget && report.budget->needed_bytes > 0;
      trace.codec_fallbacks = report.counters.codec_fallbacks;
      if (report.host) trace.host_bytes = report.host->capacity_bytes;
    }
  }

 private:
  void try_step(int step, Trace& trace) {
    trace.steps.emplace_back();
    try {
      take_step(step, trace);
    } catch (const BudgetTooSmall& refusal) {
      trace.smallest_budget_bytes = refusal.smallest_bytes();
      trace.steps.back().error = refusal.what();
    } catch (const std::exception& error) {
      trace.steps.back().error = error.what();
    }
  }

  /// A training that goes on after an error of a step takes the step again, as from a checkpoint.
  [[nodiscard]] bool may_take_again(const Trace& trace) const {
    return is_detected_write(program_, trace.steps.back().error) && !loop_.keeps_graph &&
           !loop_.carries_state;
  }

  void take_step(int step, Trace& trace) {
    StepTrace& traced = trace.steps.back();
    prepare(step);
    const bool logged = execution_.measures_saved && step == loop_.steps;
    std::optional<AllocationLog> log;
    traced.begin_bytes = live_bytes();
    HighMark high(cpu_allocation_source());
    if (logged) log.emplace(cpu_allocation_source(), states_);
    log_ = log ? &*log : nullptr;
    walk("begin");
    std::optional<LoggedSink> logged_sink;
    if (log) logged_sink.emplace(*mode_, *log);
    sink_ = log ? static_cast<SavedTensorSink*>(&*logged_sink) : mode_.get();
    mode_->begin_step(step);
    if (another_ != nullptr) another_->begin_step(step);
    try {
      train(step, traced);
      if (loop_.updates_inside) end_training(step, traced);
    } catch (const Injected&) {
    } catch (const std::exception& error) {
      // Autograd may wrap what a hook throws.
      if (std::string(error.what()).find(kInjected) == std::string::npos) {
        end_step();
        throw;
      }
    }
    end_step();
    log_ = nullptr;
    traced.peak_bytes = high.take();
    if (log) trace.peak_saved_bytes = attribute(log->close()).peak_saved_bytes;
    try {
      mode_->check_step();
    } catch (const BudgetNotKept&) {
      traced.refused_by_check = true;
    }
    finish(step, traced);
  }

  /// Without it the log takes what autograd saved of weights for activations. Batches are born as
  /// inputs; kept for a walk they would live longer than the program's.
  void walk(const char* name) const {
    if (log_ == nullptr) return;
    log_->walk(name, {{Owner::kWeights, states_}, {Owner::kActivations, mode_->held()}});
  }

  void end_step() {
    mode_->end_step();
    if (another_ != nullptr) another_->end_step();
  }

  void prepare(int step) {
    number_changed_ = step >= loop_.changes_at;
    writes_ = step >= loop_.writes_from;
    trained_ = false;
    middle_ = at::Tensor();
    throws_in_forward_ = throws_in_backward_ = evaluates_inside_ = false;
    batches_.clear();
    for (const Happening& happening : loop_.happenings) {
      if (happening.step == step) happen(happening);
    }
  }

  void happen(const Happening& happening) {
    const auto state = static_cast<size_t>(happening.state);
    switch (happening.event) {
      case Event::kThrowInForward:
        throws_in_forward_ = true;
        break;
      case Event::kThrowInBackward:
        throws_in_backward_ = true;
        break;
      case Event::kOtherBatch:
        other_batch_ = true;
        break;
      case Event::kUnfreeze:
        states_.at(state).requires_grad_(true);
        break;
      case Event::kFreeze:
        states_.at(state).requires_grad_(false);
        break;
      case Event::kLoadByCopy:
        load(/*set_data=*/false);
        break;
      case Event::kLoadBySetData:
        load(/*set_data=*/true);
        break;
      case Event::kEvaluate:
        evaluate();
        break;
      case Event::kEvaluateInside:
        evaluates_inside_ = true;
        break;
    }
  }

  void load(bool set_data) {
    const at::NoGradGuard no_grad;
    at::manual_seed(program_.seed + 77);
    for (size_t i = 0; i < states_.size(); ++i) {
      const at::Tensor loaded = initial(program_.states[i], state_type(program_));
      if (set_data) {
        states_[i].set_data(loaded);
      } else {
        states_[i].copy_(loaded);
      }
    }
  }

  void evaluate() {
    const at::NoGradGuard no_grad;
    training_ = detaches_ = false;
    const bool throws = std::exchange(throws_in_forward_, false);
    static_cast<void>(model(draw_batch(loop_.batch), program_.calls.size()));
    training_ = true;
    throws_in_forward_ = throws;
  }

  void train(int step, StepTrace& traced) {
    const AutocastGuard autocast(loop_.casts_once);
    std::optional<ScopeInBackward> inner;
    const std::vector<at::Tensor> trained = trained_states();
    if (loop_.opens_scope && !trained.empty()) inner.emplace(trained[0], *sink_);
    std::optional<HookOf> doubling;
    if (loop_.counts_gradients && !trained.empty()) {
      doubling.emplace(trained[0], [this](const at::Tensor& gradient) {
        return gradient.defined() ? gradient * (1 + gradients_++ % 2) : gradient;
      });
    }
    std::optional<HookOf> counting;
    if (loop_.counts_backwards && !trained.empty()) {
      counting.emplace(trained[0], [this](const at::Tensor& gradient) {
        backwards_.data().add_(1);
        return gradient;
      });
    }
    if (evaluates_inside_) {
      const SavedTensorScope scope(*sink_);
      evaluate();
    }
    std::vector<at::Tensor> losses;
    for (int pass = 0; pass < loop_.passes; ++pass) {
      at::manual_seed(program_.seed * 1000 + static_cast<uint64_t>(step * 10 + pass));
      losses.push_back(forward(step, pass));
      traced.losses.push_back(losses.back().item<double>());
      traced.held_bytes = std::max(traced.held_bytes, live_bytes() - traced.begin_bytes);
      walk("forward");
      if (loop_.together) continue;
      backward(std::exchange(losses, {}), step, traced);
      walk("backward");
    }
    if (loop_.together) backward(std::move(losses), step, traced);
  }

  at::Tensor forward(int step, int pass) {
    at::Tensor loss;
    run_on(
        loop_.other_thread, [&] { loss = forward_here(step, pass); }, log_ != nullptr);
    if (loop_.writes_biases && writes_) write_biases();
    return loss;
  }

  at::Tensor forward_here(int step, int pass) {
    const at::Tensor batch = next_batch(other_batch_ ? loop_.other_batch : batch_of(loop_, step));
    detaches_ = detaches_in(loop_, step, pass);
    factor_ = factor_of(loop_, step, pass);
    const size_t all = program_.calls.size();
    const size_t calls = loop_.halves && (step + pass) % 2 == 0 ? (all + 1) / 2 : all;
    at::Tensor loss;
    {
      // A log sees the operators of threads that have the state of the one that opened it.
      std::optional<at::ThreadLocalStateGuard> state;
      if (within_ && log_ == nullptr) state.emplace(*within_);
      std::optional<SavedTensorScope> outer;
      if (loop_.scopes == Scopes::kInsideAnother || loop_.scopes == Scopes::kBetween) {
        outer.emplace(*another_);
      }
      if (loop_.scopes == Scopes::kInsideOwnHooks) outer.emplace(own_sink_);
      const SavedTensorScope scope(*sink_);
      if (loop_.thread_state) within_.emplace();
      loss = model(batch, calls);
      if (loop_.gradient_penalty && loop_.penalty_inside) loss = penalized(loss);
    }
    return loop_.gradient_penalty && !loop_.penalty_inside ? penalized(loss) : loss;
  }

  at::Tensor draw_batch(int64_t size) const {
    const OwnerScope owner(Owner::kInput);
    Shape shape = program_.input.shape;
    shape[0] = size;
    if (program_.input.dtype == at::kLong) return at::randint(16, shape, at::kLong);
    return at::randn(shape, program_.input.dtype);
  }

  at::Tensor next_batch(int64_t size) {
    at::Tensor batch = draw_batch(size);
    if (loop_.carries_state && carried_.defined() && carried_.sizes() == batch.sizes()) {
      const OwnerScope owner(Owner::kInput);
      batch = batch + at::tanh(carried_) * 0.5;
    }
    if (loop_.input_penalty) batches_.push_back(batch.requires_grad_());
    return batch;
  }

  void write_biases() {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (nobody_saves(program_, i)) states_[i].mul_(0.999);
    }
  }

  at::Tensor model(const at::Tensor& batch, size_t calls) {
    std::optional<AutocastGuard> autocast;
    if (!at::autocast::is_autocast_enabled(at::kCPU)) autocast.emplace(loop_.autocast);
    const auto types = types_of(program_, batch.size(0));
    std::vector<at::Tensor> values = {batch};
    std::vector<bool> used(calls + 1, false);
    std::optional<SavedTensorScope> inner;
    for (size_t i = 0; i < calls; ++i) {
      if (throws_in_forward_ && i >= calls / 2) throw Injected(kInjected);
      if (training_ && i == calls / 2) {
        if (loop_.scopes == Scopes::kTwice) inner.emplace(*sink_);
        if (loop_.scopes == Scopes::kAroundAnother || loop_.scopes == Scopes::kBetween) {
          inner.emplace(*another_);
        }
        if (loop_.scopes == Scopes::kAroundOwnHooks) inner.emplace(own_sink_);
      }
      const Call& call = program_.calls[i];
      values.push_back(result_of(call, detaches_ && i >= half() ? detached(values) : values));
      check_type(call, values.back(), types->at(i + 1));
      for (const int input : call.inputs) used[static_cast<size_t>(input)] = true;
    }
    inner.reset();
    if (throws_in_backward_) throw_in_backward_of(values);
    if (loop_.retains_middle && training_) retain_middle(values);
    at::Tensor loss = at::zeros({});
    for (size_t i = 1; i < values.size(); ++i) {
      const bool ends = !used[i] && values[i].scalar_type() != at::kBool;
      if (ends && !(detaches_ && i <= half())) loss = loss + loss_of(values[i]);
    }
    if (loop_.carries_state && training_) carry(values);
    return loss;
  }

  /// A pass that ends before the value in the middle has none.
  void retain_middle(const std::vector<at::Tensor>& values) {
    if (middle_value(program_) >= values.size()) return;
    const at::Tensor& middle = values[middle_value(program_)];
    if (!middle.requires_grad() || middle.is_leaf()) return;
    middle.retain_grad();
    middle_ = middle;
  }

  [[nodiscard]] size_t half() const { return program_.calls.size() / 2; }

  /// The results of the first half without their history.
  [[nodiscard]] std::vector<at::Tensor> detached(std::vector<at::Tensor> values) const {
    for (size_t i = 1; i <= half() && i < values.size(); ++i) values[i] = values[i].detach();
    return values;
  }

  void carry(const std::vector<at::Tensor>& values) {
    for (const at::Tensor& value : values) {
      const bool alike = value.sizes() == values[0].sizes() &&
                         at::isFloatingType(value.scalar_type()) &&
                         value.scalar_type() == values[0].scalar_type();
      if (alike) carried_ = value.detach();
    }
  }

  at::Tensor result_of(const Call& call, const std::vector<at::Tensor>& values) const {
    Arguments arguments;
    for (const int input : call.inputs) {
      arguments.in.push_back(values[static_cast<size_t>(input)]);
    }
    for (const int state : call.states) {
      arguments.states.push_back(states_[static_cast<size_t>(state)]);
    }
    arguments.number = factor_ * (number_changed_ ? call.later : call.number);
    arguments.training = training_;
    arguments.writes = writes_;
    return find_operator(call.op).run(arguments);
  }

  /// A rule of operators.cpp that is wrong makes the program invalid.
  static void check_type(const Call& call, const at::Tensor& value, const Type& type) {
    TORCH_CHECK(value.scalar_type() == type.dtype && value.sizes() == at::IntArrayRef(type.shape),
                "programs: operator: ", call.op, " gives ", value.scalar_type(), value.sizes(),
                ", its rule ", type.dtype, at::IntArrayRef(type.shape));
  }

  static at::Tensor loss_of(const at::Tensor& value) {
    return value.is_complex() ? at::view_as_real(value.resolve_conj()).square().mean()
                              : value.square().mean(value.scalar_type() == at::kBFloat16
                                                        ? std::optional(at::kFloat)
                                                        : std::nullopt);
  }

  static void throw_in_backward_of(const std::vector<at::Tensor>& values) {
    for (size_t i = values.size() / 2; i < values.size(); ++i) {
      if (!values[i].requires_grad()) continue;
      values[i].register_hook([](const at::Tensor& gradient) -> at::Tensor {
        throw Injected(kInjected);
        return gradient;
      });
      return;
    }
  }

  at::Tensor penalized(const at::Tensor& loss) const {
    const std::vector<at::Tensor> trained = trained_states();
    if (!loss.requires_grad() || trained.empty()) return loss;
    const auto gradients = torch::autograd::grad({loss}, trained, {}, /*retain_graph=*/true,
                                                 /*create_graph=*/true, /*allow_unused=*/true);
    at::Tensor sum = loss;
    for (const at::Tensor& gradient : gradients) {
      if (gradient.defined()) sum = sum + gradient.square().sum() * 0.01;
    }
    return sum;
  }

  [[nodiscard]] std::vector<at::Tensor> trained_states() const {
    std::vector<at::Tensor> trained;
    for (const at::Tensor& state : states_) {
      if (state.requires_grad()) trained.push_back(state);
    }
    return trained;
  }

  void backward(std::vector<at::Tensor> losses, int step, StepTrace& traced) {
    const std::vector<at::Tensor> batches = std::exchange(batches_, {});
    at::Tensor loss = losses[0];
    for (size_t i = 1; i < losses.size(); ++i) loss = loss + losses[i];
    losses.clear();
    if (!loss.requires_grad()) return;
    const bool keeps = !updates_in(loop_, step);
    if (at::Tensor before = std::exchange(kept_loss_, {}); before.defined()) loss = loss + before;
    const auto run = [&] {
      const int64_t before_bytes = live_bytes();
      for (int i = 1; i <= loop_.backwards; ++i) {
        const bool retains = i < loop_.backwards || keeps || loop_.input_penalty;
        loop_.asks_gradients ? ask_gradients(loss, retains) : loss.backward({}, retains);
        if (i == 1) traced.retained_bytes += live_bytes() - before_bytes;
      }
      if (loop_.input_penalty) penalize_inputs(loss, batches);
    };
    run_on(loop_.backward_thread, run, log_ != nullptr);
    if (keeps) kept_loss_ = loss;
  }

  void ask_gradients(const at::Tensor& loss, bool retains) const {
    const std::vector<at::Tensor> trained = trained_states();
    const auto gradients = torch::autograd::grad({loss}, trained, {}, retains,
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0; i < trained.size(); ++i) {
      if (!gradients[i].defined()) continue;
      at::Tensor& own = trained[i].mutable_grad();
      own = own.defined() ? own + gradients[i] : gradients[i];
    }
  }

  static void penalize_inputs(const at::Tensor& loss, const std::vector<at::Tensor>& batches) {
    at::Tensor sum = at::zeros({});
    for (const at::Tensor& gradient : torch::autograd::grad(
             {loss}, batches, {}, /*retain_graph=*/true, /*create_graph=*/true, true)) {
      if (gradient.defined()) sum = sum + gradient.square().sum() * 0.01;
    }
    if (sum.requires_grad()) sum.backward();
  }

  /// The gradients have been made, and weights are updated, unless that was done.
  void end_training(int step, StepTrace& traced) {
    if (std::exchange(trained_, true)) return;
    for (const at::Tensor& state : states_) traced.gradients.push_back(elements_of(state.grad()));
    if (middle_.defined()) traced.retained = elements_of(middle_.grad());
    middle_ = at::Tensor();
    traced.backwards = backwards_.item<int64_t>();
    if (updates_in(loop_, step)) update(step);
  }

  void finish(int step, StepTrace& traced) {
    end_training(step, traced);
    if (updates_in(loop_, step)) {
      kept_loss_ = at::Tensor();  // it may be of a step whose forward threw; its weights were
                                  // written
      for (at::Tensor& state : states_) state.mutable_grad() = at::Tensor();
      if (execution_.follow != nullptr)
        set_states(execution_.follow->steps.at(static_cast<size_t>(step - 1)).states);
    }
    traced.states = elements_of_all(states_);
    traced.end_bytes = live_bytes();
    if (const auto* planned = dynamic_cast<const PlannedMode*>(mode_.get())) {
      const PlannedModeReport report = planned->report();
      traced.followed_passes = report.followed_passes;
      traced.departures = report.counters.departures;
      traced.another_follows = another_follows();
      if (report.budget) traced.exceeded_steps = report.budget->exceeded;
      if (report.budget) traced.uncertain_steps = report.budget->uncertain;
    }
  }

  /// Asks only once in a step, whose answer it is.
  [[nodiscard]] bool another_follows() {
    if (another_ == nullptr) return true;
    const PlannedModeReport report = report_of(*another_);
    const bool departed = std::exchange(another_departures_, report.counters.departures) !=
                          report.counters.departures;
    const bool followed =
        std::exchange(another_followed_, report.followed_passes) != report.followed_passes;
    return followed && !departed;
  }

  void update(int step) {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < states_.size(); ++i) {
      const bool alone = loop_.adversarial && loop_.passes == 1;
      if (alone && !is_of_half(program_, i, detaches_in(loop_, step, 0))) continue;
      const at::Tensor& gradient = states_[i].grad();
      if (!gradient.defined()) continue;
      if (loop_.optimizer == Optimizer::kSgd) {
        states_[i].sub_(gradient, 0.01);
        continue;
      }
      if (!first_moments_[i].defined()) {
        first_moments_[i] = at::zeros_like(gradient);
        second_moments_[i] = at::zeros_like(gradient);
      }
      first_moments_[i].mul_(0.9).add_(gradient, 0.1);
      second_moments_[i].mul_(0.99).addcmul_(gradient, gradient, 0.01);
      states_[i].sub_(first_moments_[i] / (second_moments_[i].sqrt() + 1e-4), 0.01);
    }
  }

  void set_states(const std::vector<Elements>& elements) {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i].copy_(
          at::from_blob(const_cast<double*>(elements[i].data()), states_[i].sizes(), at::kDouble));
    }
  }

  const Program& program_;
  const Loop& loop_;
  const Execution& execution_;
  std::vector<at::Tensor> states_;
  std::vector<at::Tensor> first_moments_, second_moments_;
  std::unique_ptr<Mode> mode_;
  std::unique_ptr<Mode> another_;   ///< a second mode for the scopes that need one; else null
  int64_t another_departures_ = 0;  ///< their number when another_follows() last asked
  int64_t another_followed_ = 0;
  std::optional<at::ThreadLocalState> within_;  ///< the pass before, by Loop::thread_state
  OwnSink own_sink_;                            ///< sink for the scopes that need one
  SavedTensorSink* sink_ = nullptr;
  AllocationLog* log_ = nullptr;     ///< the log of the step in progress; null: it has none
  std::vector<at::Tensor> batches_;  ///< batches whose backward pass is to come (input_penalty)
  at::Tensor carried_;               ///< Loop::carries_state sets it
  at::Tensor kept_loss_;             ///< Loop::keeps_graph sets it, with its graph
  at::Tensor middle_;                ///< Loop::retains_middle sets it
  at::Tensor backwards_ = at::zeros({}, at::kLong);  ///< Loop::counts_backwards counts in it
  bool trained_ = false;                             ///< end_training() was called in this step
  int64_t gradients_ = 0;  ///< gradients that the hook of Loop::counts_gradients has seen
  bool detaches_ = false;
  double factor_ = 1;  ///< constants of this pass are multiplied by it
  bool number_changed_ = false;
  bool writes_ = true;
  bool other_batch_ = false;
  bool training_ = true;
  bool throws_in_forward_ = false;
  bool throws_in_backward_ = false;
  bool evaluates_inside_ = false;
};

}  // namespace

bool is_detected_write(const Program& program, const std::string& error) {
  const bool says =
      error.find("is not what forward had") != std::string::npos ||
      error.find("changed in place between forward and backward") != std::string::npos;
  return says && (program.loop.writes_biases ||
                  std::any_of(program.calls.begin(), program.calls.end(), [](const Call& call) {
                    return find_operator(call.op).effects.writes_state ||
                           call.op == "running_shift";
                  }));
}

bool is_refused_rehearsal(const Program& program, const std::string& error) {
  return program.loop.counts_gradients && program.mode.error > 0 &&
         error.find("backward gives another gradient when it is run again") != std::string::npos;
}

Trace execute(const Program& program, const Execution& execution) {
  Trace trace;
  const int64_t before = live_bytes();
  {
    Training training(program, execution);
    training.run(trace);
  }
  trace.left_bytes = live_bytes() - before;
  return trace;
}

}  // namespace noisemark::memopt::programs
