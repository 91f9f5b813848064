#pragma once

#include <ATen/Context.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <vector>

#include "memopt/accounting/allocation_log.h"
#include "memopt/accounting/attribution.h"
#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode.h"
#include "tests/memopt/nets.h"

namespace noisemark::memopt::test {

/// The bytes that one training step held, as the allocator saw it.
struct StepMemory {
  int64_t saved_bytes = 0;
  int64_t peak_saved_bytes = 0;
  int64_t peak_bytes = 0;
};

/// Trains a net under a mode on one batch, and measures steps by owner.
class MeasuredTraining {
 public:
  explicit MeasuredTraining(Mode& mode, int64_t batch = 4, int64_t size = 32, bool relu = false)
      : mode_(mode), net_(seeded_net(relu)) {
    x_ = at::randn({batch, 3, size, size});
    target_ = at::randn({batch, 3, size, size});
    mode_.attach(net_.view());
  }

  /// Makes steps until the mode does what its name says.
  void warm_up() {
    for (int64_t i = 0; i < mode_.forwards_until_steady(); ++i) step(nullptr);
  }

  StepMemory measured_step() {
    std::vector<at::Tensor> parameters;
    for (const auto& [name, parameter] : net_.view().parameters) parameters.push_back(parameter);
    AllocationLog log(cpu_allocation_source(), parameters);
    walk(log, "step_begin");
    step(&log);
    walk(log, "step_end");
    const Attribution attribution = attribute(log.close());
    StepMemory memory;
    memory.peak_saved_bytes = attribution.peak_saved_bytes;
    memory.peak_bytes = attribution.peak.live_bytes;
    for (const OwnedBoundary& boundary : attribution.boundaries) {
      if (boundary.name == "forward_end") memory.saved_bytes = boundary.at.saved_bytes();
    }
    return memory;
  }

  /// Gradients of one more step.
  std::vector<at::Tensor> gradients() {
    step(nullptr, true);
    std::vector<at::Tensor> gradients = net_.gradients();
    net_.zero_grad();
    return gradients;
  }

 private:
  class Sink final : public SavedTensorSink {
   public:
    Sink(Mode& mode, AllocationLog* log) : mode_(mode), log_(log) {}
    std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
      return log_ == nullptr ? mode_.make_hooks() : log_->observe(or_keeping(mode_.make_hooks()));
    }
    void begin_forward() override { mode_.begin_forward(); }
    void end_forward() override { mode_.end_forward(); }

   private:
    Mode& mode_;
    AllocationLog* log_;
  };

  void walk(AllocationLog& log, const char* name) {
    std::vector<at::Tensor> weights;
    for (const auto& [key, parameter] : net_.view().parameters) weights.push_back(parameter);
    log.walk(name, {{Owner::kWeights, weights},
                    {Owner::kInput, {x_, target_}},
                    {Owner::kActivations, mode_.held()}});
  }

  void step(AllocationLog* log, bool keep_gradients = false) {
    at::manual_seed(static_cast<uint64_t>(++number_));
    mode_.begin_step(number_);
    Sink sink(mode_, log);
    at::Tensor loss;
    {
      const SavedTensorScope scope(sink);
      loss = at::mse_loss(net_.forward(x_), target_);
    }
    if (log != nullptr) walk(*log, "forward_end");
    loss.backward();
    if (log != nullptr) walk(*log, "backward_end");
    mode_.end_step();
    if (!keep_gradients) net_.zero_grad();
  }

  /// The same weights in every training. With ReLU, it pools too.
  static BlockNet seeded_net(bool relu) {
    at::manual_seed(31);
    BlockNet net(16, relu);
    net.pools = relu;
    return net;
  }

  Mode& mode_;
  BlockNet net_;
  at::Tensor x_, target_;
  int64_t number_ = 0;
};

}  // namespace noisemark::memopt::test
