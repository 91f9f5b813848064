#pragma once

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memopt/accounting/allocation_log.h"
#include "reports/profile/recording.h"
#include "suite/models/module_scope.h"
#include "suite/train/observer.h"

namespace noisemark::suite {

struct RecorderOptions {
  c10::Device device = c10::kCPU;
  bool shapes = false;  ///< record every operator's input shapes, which slows steps further
};

/// Profiles training steps by LibTorch's profiler (kineto), with memory, and names steps, phases
/// and layers in what it sees. Give it to the trainer as an observer, on whose thread all of it
/// happens.
class StepRecorder final : public StepObserver, private ModuleObserver {
 public:
  StepRecorder(torch::nn::Module& model, const RecorderOptions& options);
  ~StepRecorder() override;

  /// Profiles from here on.
  void start();
  /// Returns what was seen. Writes kineto's trace to `trace` where it is not empty; throws Error
  /// (cannot write).
  [[nodiscard]] reports::Recording stop(const std::string& trace = "");

  void on_step_begin(int64_t step) override;
  void on_phase_begin(Phase phase) override;
  void on_phase_end(Phase phase) override;
  void on_step_end(int64_t step) override;

 private:
  void on_module_begin(const torch::nn::Module& module) override;
  void on_module_end() noexcept override;

  struct State;
  std::unique_ptr<State> state_;
};

/// Memory by owner at every allocation and release of the recorded steps. `watched` is another step
/// of the same training, in which owners are known: the same allocations in the same order have the
/// same owners. Throws Error (internal) where a step allocates otherwise.
[[nodiscard]] std::vector<reports::MemoryCounter> memory_counters(
    const reports::Recording& recording, const memopt::AllocationRecord& watched);

}  // namespace noisemark::suite
