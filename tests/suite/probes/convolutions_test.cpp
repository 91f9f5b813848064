#include "suite/probes/convolutions.h"
#include "tests/gpu.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace noisemark::suite {
namespace {

const std::vector<int64_t> kInput{16, 128, 32, 32};
const std::vector<int64_t> kWeight{128, 128, 3, 3};

ConvolutionCall call(uint64_t correlation, bool gradient = false,
                     std::vector<int64_t> stride = {1, 1}) {
  return {correlation, gradient, kInput, kWeight, std::move(stride)};
}

/// Direction, kernel and calls of each row.
std::string listed(const std::vector<reports::ConvolutionKernel>& rows) {
  std::string text;
  for (const auto& row : rows) {
    text += row.direction + " " + row.kernel + " " + std::to_string(row.calls).substr(0, 4) + "\n";
  }
  return text;
}

TEST(ConvolutionKernels, are_those_that_a_convolution_launched) {
  const ConvolutionEvents events{{call(7)},
                                 {{"fprop", 7, 1000}, {"silu", 8, 5000}, {"copy", 0, 100}}};
  const auto rows = convolution_kernels(events, 1);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].direction, "forward");
  EXPECT_EQ(rows[0].kernel, "fprop");
  EXPECT_EQ(rows[0].input, kInput);
  EXPECT_EQ(rows[0].weight, kWeight);
  EXPECT_EQ(rows[0].stride, (std::vector<int64_t>{1, 1}));
  EXPECT_DOUBLE_EQ(rows[0].time_s, 1e-6);
}

TEST(ConvolutionKernels, of_equal_calls_are_one_row_with_calls_and_time_per_step) {
  const ConvolutionEvents events{{call(1), call(2), call(3), call(4)},
                                 {{"a", 1, 10}, {"a", 2, 20}, {"a", 3, 30}, {"a", 4, 40}}};
  const auto rows = convolution_kernels(events, 2);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_DOUBLE_EQ(rows[0].calls, 2);
  EXPECT_DOUBLE_EQ(rows[0].time_s, 50e-9);
}

TEST(ConvolutionKernels, of_a_step_in_which_the_algorithm_changed_are_not_rounded_away) {
  const ConvolutionEvents events{{call(1), call(2), call(3), call(4)},
                                 {{"a", 1, 10}, {"a", 2, 10}, {"a", 3, 10}, {"b", 4, 10}}};
  EXPECT_EQ(listed(convolution_kernels(events, 4)), "forward a 0.75\nforward b 0.25\n");
}

TEST(ConvolutionKernels, of_other_shapes_and_strides_are_rows_of_their_own) {
  ConvolutionCall wide = call(2);
  wide.input[2] = 64;
  const ConvolutionEvents events{{call(1), wide, call(3, false, {2, 2})},
                                 {{"a", 1, 10}, {"a", 2, 10}, {"a", 3, 10}}};
  EXPECT_EQ(convolution_kernels(events, 1).size(), 3U);
}

TEST(ConvolutionKernels, of_a_gradient_say_by_their_names_which_one) {
  const ConvolutionEvents events{{call(1, true)},
                                 {{"sm90_xmma_dgrad_implicit_gemm", 1, 30},
                                  {"cutlass_tensorop_s1688wgrad_optimized", 1, 20},
                                  {"void cudnn::ops::nchwToNhwcKernel<float>", 1, 10}}};
  EXPECT_EQ(listed(convolution_kernels(events, 1)),
            "data sm90_xmma_dgrad_implicit_gemm 1.00\n"
            "weight cutlass_tensorop_s1688wgrad_optimized 1.00\n"
            "gradient void cudnn::ops::nchwToNhwcKernel<float> 1.00\n");
}

TEST(ConvolutionKernels, of_a_gradient_are_known_by_every_spelling_of_nvidias) {
  EXPECT_EQ(gradient_direction("void cudnn::cnn::dgrad2d_alg1_1<float>"), "data");
  EXPECT_EQ(gradient_direction("conv_bwd_data_kernel"), "data");
  EXPECT_EQ(gradient_direction("CutlassDgradKernel"), "data");
  EXPECT_EQ(gradient_direction("void cudnn::cnn::wgrad_alg0_engine<float>"), "weight");
  EXPECT_EQ(gradient_direction("backward_filter_direct"), "weight");
  EXPECT_EQ(gradient_direction("sm80_xmma_fprop_implicit_gemm"), "gradient")
      << "the forward kernel computes a gradient of the data too, with turned weights";
}

TEST(ConvolutionKernels, are_by_falling_time_and_of_equal_times_in_a_stable_order) {
  ConvolutionEvents events{{call(1), call(2, true)},
                           {{"b", 1, 10}, {"a", 1, 10}, {"c", 1, 50}, {"dgrad", 2, 10}}};
  const std::string expected = "forward c 1.00\ndata dgrad 1.00\nforward a 1.00\nforward b 1.00\n";
  EXPECT_EQ(listed(convolution_kernels(events, 1)), expected);
  std::reverse(events.kernels.begin(), events.kernels.end());
  EXPECT_EQ(listed(convolution_kernels(events, 1)), expected);
}

TEST(ConvolutionKernels, of_nothing_are_none) {
  EXPECT_TRUE(convolution_kernels({}, 3).empty());
  EXPECT_TRUE(convolution_kernels({{call(1)}, {}}, 3).empty());
}

namespace kineto = torch::autograd::profiler;

std::unique_ptr<kineto::ProfilerResult> profiled(bool shapes, const std::function<void()>& work) {
  using torch::profiler::impl::ActivityType;
  const std::set<ActivityType> activities{ActivityType::CPU};
  const kineto::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO, shapes, false,
                                      false, false, false, {});
  kineto::prepareProfiler(config, activities);
  kineto::enableProfiler(config, activities);
  work();
  return kineto::disableProfiler();
}

/// The gradients of a convolution of 3 to 8 channels with stride 2.
void backward_of_a_convolution() {
  const at::Tensor x = at::randn({2, 3, 16, 12}).requires_grad_();
  const at::Tensor weight = at::randn({8, 3, 3, 5}).requires_grad_();
  at::conv2d(x, weight, {}, /*stride=*/{2, 1}, /*padding=*/1).sum().backward();
}

TEST(ConvolutionEvents, know_shapes_and_stride_of_a_convolutions_gradient) {
  const auto events = convolution_events(*profiled(true, backward_of_a_convolution));
  // Its forward pass is oneDNN's here, and no operator in which cuDNN is called.
  ASSERT_EQ(events.calls.size(), 1U);
  const ConvolutionCall& call = events.calls.front();
  EXPECT_TRUE(call.gradient);
  EXPECT_EQ(call.input, (std::vector<int64_t>{2, 3, 16, 12}));
  EXPECT_EQ(call.weight, (std::vector<int64_t>{8, 3, 3, 5}));
  EXPECT_EQ(call.stride, (std::vector<int64_t>{2, 1}));
  EXPECT_TRUE(events.kernels.empty());
}

TEST(ConvolutionEvents, of_a_profile_without_shapes_have_none) {
  const auto events = convolution_events(*profiled(false, backward_of_a_convolution));
  ASSERT_EQ(events.calls.size(), 1U);
  EXPECT_TRUE(events.calls.front().input.empty());
  EXPECT_TRUE(events.calls.front().stride.empty());
}

TEST(ConvolutionEvents, are_none_where_nothing_is_convolved) {
  const auto events = convolution_events(*profiled(true, [] {
    const at::Tensor x = at::randn({4, 4});
    (void)x.matmul(x);
  }));
  EXPECT_TRUE(events.calls.empty());
}

using memopt::LogEvent;
using Kind = LogEvent::Kind;

/// An allocation log written by hand, as the operators of a GPU would write it.
class Script {
 public:
  uint32_t open(const std::string& name, uint32_t parent = 0, bool calls_library = true) {
    memopt::OperatorFrame frame;
    frame.name = name;
    frame.parent = parent;
    frame.calls_library = calls_library;
    frame.opened_at = record.events.size();
    record.frames.push_back(frame);
    return static_cast<uint32_t>(record.frames.size());
  }
  void close(uint32_t id) { record.frames[id - 1].closed_at = record.events.size(); }
  void allocate(uint64_t number, int64_t bytes, uint32_t frame = 0) {
    add(Kind::kAllocate, number, bytes, frame);
  }
  void release(uint64_t number, int64_t bytes, uint32_t frame = 0) {
    add(Kind::kRelease, number, bytes, frame);
  }
  /// A forward convolution as LibTorch calls it: a copy, the result, and scratch memory.
  void convolve(uint64_t number, int64_t scratch_bytes) {
    const uint32_t outer = open("aten::convolution");
    const uint32_t inner = open("aten::cudnn_convolution", outer);
    const uint32_t copy = open("aten::empty", inner, /*calls_library=*/false);
    allocate(number, 5000, copy);
    close(copy);
    allocate(number + 1, 9000, inner);  // the result
    allocate(number + 2, scratch_bytes, inner);
    release(number + 2, scratch_bytes, inner);
    release(number, 5000, inner);
    close(inner);
    close(outer);
  }

  [[nodiscard]] reports::ConvolutionWorkspace found(std::optional<int64_t> limit = {}) const {
    return convolution_workspace(kGpu, record, memopt::attribute(record), limit);
  }

  memopt::AllocationRecord record;

 private:
  void add(Kind kind, uint64_t number, int64_t bytes, uint32_t frame) {
    LogEvent event;
    event.kind = kind;
    event.frame = frame;
    event.block = {number, bytes, memopt::Owner::kUnattributed};
    record.events.push_back(event);
  }
};

TEST(ConvolutionWorkspace, is_what_the_operator_took_for_cudnn_and_no_copy_and_no_result) {
  Script script;
  script.convolve(1, 700);
  const reports::ConvolutionWorkspace found = script.found();
  EXPECT_EQ(found.largest_bytes, 700);
  EXPECT_EQ(found.peak_bytes, 5700) << "the copy is scratch of the operator too, at one instant";
  EXPECT_EQ(found.missing_reason, "");
  EXPECT_FALSE(found.limit_bytes);
}

TEST(ConvolutionWorkspace, is_the_largest_of_all_convolutions_of_the_step) {
  Script script;
  script.convolve(1, 700);
  script.convolve(11, 2000);
  script.convolve(21, 1000);
  const uint32_t backward = script.open("aten::convolution_backward");
  script.allocate(31, 3000, backward);
  script.release(31, 3000, backward);
  script.close(backward);
  EXPECT_EQ(script.found().largest_bytes, 3000);
}

TEST(ConvolutionWorkspace, is_not_what_other_operators_of_libraries_take) {
  Script script;
  script.convolve(1, 700);
  const uint32_t product = script.open("aten::mm");
  script.allocate(11, 9000, product);
  script.release(11, 9000, product);
  script.close(product);
  EXPECT_EQ(script.found().largest_bytes, 700);
  EXPECT_EQ(script.found().peak_bytes, 9000);
}

TEST(ConvolutionWorkspace, is_not_what_outlives_the_operator) {
  Script script;
  const uint32_t backward = script.open("aten::convolution_backward");
  script.allocate(1, 4000, backward);
  script.close(backward);
  script.release(1, 4000);
  EXPECT_EQ(script.found().largest_bytes, 0);
}

TEST(ConvolutionWorkspace, of_a_step_in_which_no_convolution_took_any_is_none) {
  const reports::ConvolutionWorkspace found = Script().found();
  EXPECT_EQ(found.largest_bytes, 0);
  EXPECT_EQ(found.peak_bytes, 0);
}

TEST(ConvolutionWorkspace, stands_beside_the_limit) {
  Script script;
  script.convolve(1, 700);
  EXPECT_EQ(script.found(512).limit_bytes, 512);
}

TEST(ConvolutionWorkspace, of_a_cpu_is_not_known_and_says_why) {
  const memopt::AllocationRecord record;
  const auto found = convolution_workspace(c10::Device("cpu"), record, memopt::attribute(record),
                                           int64_t{1} << 20);
  EXPECT_FALSE(found.largest_bytes);
  EXPECT_FALSE(found.peak_bytes);
  EXPECT_EQ(found.limit_bytes, 1 << 20);
  EXPECT_NE(found.missing_reason.find("oneDNN"), std::string::npos);
}

TEST(ConvolutionWorkspaceLimit, is_in_mebibytes_and_nothing_where_it_is_no_number) {
  EXPECT_EQ(workspace_limit("64"), int64_t{64} << 20);
  EXPECT_EQ(workspace_limit("0"), 0);
  EXPECT_EQ(workspace_limit(nullptr), std::nullopt);
  for (const char* text : {"", "many", "-1", "64MiB", " 64", "9223372036854775807"}) {
    EXPECT_EQ(workspace_limit(text), std::nullopt) << text;
  }
}

}  // namespace

}  // namespace noisemark::suite
