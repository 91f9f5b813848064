#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/record/recorder.h"

namespace noisemark::memopt::test {

/// Records one forward pass in a SavedTensorScope.
class RecordingSink final : public SavedTensorSink {
 public:
  explicit RecordingSink(const ModelView& model, AllocationSource* memory = nullptr,
                         OperatorTimes::Queue queue = OperatorTimes::Queue::kAsItComes)
      : recorder_(model, memory, queue) {}
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return recorder_.make_hooks();
  }
  void end_forward() override { recorder_.end_forward(); }
  StepGraph take() { return recorder_.take(); }

 private:
  StepRecorder recorder_;
};

}  // namespace noisemark::memopt::test
