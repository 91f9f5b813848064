#include "suite/probes/convolution_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
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

}  // namespace
}  // namespace noisemark::suite
