#pragma once

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstring>
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

/// Expects the same bytes in the same order of memory, both dense.
inline void expect_same_bits(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_TRUE(a.defined());
  ASSERT_EQ(a.strides(), b.strides());
  ASSERT_EQ(a.scalar_type(), b.scalar_type());
  ASSERT_TRUE(a.is_non_overlapping_and_dense());
  EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()), 0)
      << (a - b).abs().max().item<float>();
}

}  // namespace noisemark::memopt::test
