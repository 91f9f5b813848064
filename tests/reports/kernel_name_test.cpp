#include "reports/kernel_name.h"

#include <gtest/gtest.h>

namespace noisemark::reports {
namespace {

TEST(KernelName, loses_its_type_parameters_and_namespaces) {
  EXPECT_EQ(short_kernel_name("void cudnn::ops::nchwToNhwcKernel<float, float, true>(cudnn::ops::"
                              "nchw2nhwc_params_t<float>, float const*, float*)"),
            "nchwToNhwcKernel<float, float, true>");
  EXPECT_EQ(short_kernel_name(
                "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816dgrad_optimized>"
                "(cutlass_tensorop_bf16_s16816dgrad_optimized::Params)"),
            "cutlass_tensorop_bf16_s16816dgrad_optimized");
  EXPECT_EQ(short_kernel_name("void at::native::(anonymous namespace)::fill<(int)4>(long)"),
            "fill<4>");
}

TEST(KernelName, loses_the_ending_that_says_cudnn) {
  EXPECT_EQ(short_kernel_name("sm80_xmma_wgrad_indexed_kernel__5x_cudnn"),
            "sm80_xmma_wgrad_indexed");
  EXPECT_EQ(short_kernel_name("implicit_convolve_sgemm"), "implicit_convolve_sgemm");
}

TEST(KernelName, keeps_what_lies_at_both_ends_of_a_long_one) {
  const std::string whole =
      "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_"
      "tilesize128x128x64_warpgroupsize1x1x1_g1_execute_segment_k_off";
  const std::string name = short_kernel_name(whole);
  EXPECT_EQ(name.size(), 80U) << name;
  EXPECT_TRUE(name.starts_with("sm90_xmma_fprop_implicit_gemm_bf16bf16_")) << name;
  EXPECT_TRUE(name.ends_with("execute_segment_k_off")) << name;
  EXPECT_NE(name.find(" ... "), std::string::npos) << name;
}

TEST(KernelName, of_what_is_no_c_plus_plus_stays_as_it_is) {
  for (const char* name : {"", "Memset (Device)", "a(b", "ampere_sgemm_128x64_nn"}) {
    EXPECT_FALSE(short_kernel_name(name).size() > std::string_view(name).size()) << name;
  }
  EXPECT_EQ(short_kernel_name("ampere_sgemm_128x64_nn"), "ampere_sgemm_128x64_nn");
}

}  // namespace
}  // namespace noisemark::reports
