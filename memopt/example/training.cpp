#include "memopt/example/training.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <memory>
#include <vector>

#include "memopt/accounting/allocation_log.h"
#include "memopt/accounting/attribution.h"
#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/budget.h"
#include "memopt/modes/mode.h"
#include "memopt/modes/planned_mode.h"

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
    return log_.observe(memopt::or_keeping(mode_.make_hooks()));
  }
  void begin_forward() override { mode_.begin_forward(); }
  void end_forward() override { mode_.end_forward(); }

 private:
  memopt::Mode& mode_;
  memopt::AllocationLog& log_;
};

/// Returns the length of all tensors as one vector.
double length_of(const std::vector<at::Tensor>& tensors) {
  double squares = 0;
  for (const at::Tensor& tensor : tensors) squares += tensor.square().sum().item<double>();
  return std::sqrt(squares);
}

std::string kept_by(const memopt::Mode& mode) {
  const auto* planned = dynamic_cast<const memopt::PlannedMode*>(&mode);
  if (planned == nullptr) return "everything";
  if (planned->plan() == nullptr) return planned->report().missing_reason;
  const std::vector<memopt::HeldGroup> groups = memopt::held_groups(*planned->plan());
  if (groups.empty()) return "";
  return groups.front().made_by + " (" +
         std::string(memopt::keep_reason_name(groups.front().reason)) + ")";
}

class Training {
 public:
  Training(const TaskEntry& task, const std::string& mode, const TrainingOptions& options)
      : options_(options),
        task_(task.make()),
        optimizer_(task_.model->parameters(), options.learning_rate),
        mode_(memopt::make_mode(mode)) {
    mode_->attach(view_of(*task_.model, options.seed));
  }

  [[nodiscard]] const memopt::Mode& mode() const { return *mode_; }
  [[nodiscard]] std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> state;
    for (const at::Tensor& tensor : task_.model->parameters()) state.push_back(tensor.detach());
    for (const at::Tensor& tensor : task_.model->buffers()) state.push_back(tensor);
    return state;
  }

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
    memopt::AllocationLog log(memopt::cpu_allocation_source(), state());
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
    outcome.gradient_error = gradient_error();
    update();
    return loss.detach();
  }

 private:
  /// Dropout draws behind it.
  void draw_batch(int64_t number) {
    at::manual_seed(options_.seed + static_cast<uint64_t>(number));
    batch_ = task_.draw_batch();
  }

  at::Tensor forward(memopt::SavedTensorSink& sink) {
    const memopt::SavedTensorScope scope(sink);
    return task_.loss(batch_);
  }

  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& weight : task_.model->parameters()) {
      if (weight.grad().defined()) gradients.push_back(weight.grad().clone());
    }
    return gradients;
  }

  /// Runs the step a second time without the mode, for its gradient; restores the first one's, and
  /// the running statistics.
  double gradient_error() {
    const std::vector<at::Tensor> under_mode = gradients();
    std::vector<at::Tensor> before;
    for (const at::Tensor& buffer : task_.model->buffers()) before.push_back(buffer.clone());
    optimizer_.zero_grad();
    draw_batch(number_);
    task_.loss(batch_).backward();
    const std::vector<at::Tensor> exact = gradients();
    std::vector<at::Tensor> difference;
    for (size_t i = 0; i < exact.size(); ++i) difference.push_back(under_mode[i] - exact[i]);
    restore(under_mode, before);
    return length_of(difference) / length_of(exact);
  }

  void restore(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& buffers) {
    auto gradient = gradients.begin();
    for (at::Tensor weight : task_.model->parameters()) {
      if (weight.grad().defined()) weight.mutable_grad() = *gradient++;
    }
    auto buffer = buffers.begin();
    for (const at::Tensor& moved : task_.model->buffers()) moved.copy_(*buffer++);
  }

  void update() {
    optimizer_.step();
    optimizer_.zero_grad();
  }

  void walk(memopt::AllocationLog& log, const char* name) const {
    log.walk(name, {{memopt::Owner::kWeights, state()},
                    {memopt::Owner::kInput, batch_},
                    {memopt::Owner::kActivations, mode_->held()}});
  }

  TrainingOptions options_;
  Task task_;
  torch::optim::AdamW optimizer_;
  std::unique_ptr<memopt::Mode> mode_;
  std::vector<at::Tensor> batch_;
  int64_t number_ = 0;
};

}  // namespace

Outcome train(const TaskEntry& task, const std::string& mode, const TrainingOptions& options) {
  at::manual_seed(options.seed);
  Training training(task, mode, options);
  Outcome outcome;
  outcome.lossless = training.mode().lossless();
  for (int64_t i = 1; i < options.steps; ++i) outcome.losses.push_back(training.step());
  outcome.losses.push_back(training.measured_step(outcome));
  for (const at::Tensor& tensor : training.state()) outcome.weights.push_back(tensor.clone());
  outcome.keeps = kept_by(training.mode());
  return outcome;
}

namespace {

namespace memopt = noisemark::memopt;

bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].equal(b[i])) return false;
  }
  return a.size() == b.size();
}

bool is_budget(const std::string& mode) {
  return mode.starts_with(memopt::kBudgetPrefix);
}

bool within_budget(const std::string& mode, const Outcome& outcome) {
  const memopt::Budget budget = memopt::parse_budget(mode);
  const bool all = budget.target == memopt::BudgetTarget::kPeak;
  return (all ? outcome.peak_bytes : outcome.peak_saved_bytes) <= budget.bytes;
}

bool moves_bytes(const std::string& mode) {
  return mode.find("offload") != std::string::npos;
}

}  // namespace

bool same_bits_as(const Outcome& a, const Outcome& b) {
  return same_bits(a.losses, b.losses) && same_bits(a.weights, b.weights);
}

std::string broken_promise(const std::string& mode, const Outcome& outcome, const Outcome& none) {
  if (outcome.lossless && !same_bits_as(outcome, none)) return "not the bits of mode none";
  if (is_budget(mode) && !within_budget(mode, outcome)) return "above its budget";
  if (!moves_bytes(mode) && outcome.saved_bytes > none.saved_bytes) return "held more memory";
  const int64_t most = (moves_bytes(mode) ? 2 : 1) * none.peak_saved_bytes;
  if (outcome.peak_saved_bytes > most) return "held more memory at the peak";
  const double first = outcome.losses.front().item<double>();
  const double last = outcome.losses.back().item<double>();
  return last < 0.9 * first ? "" : "learned nothing";
}

}  // namespace example
