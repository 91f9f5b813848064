#include "suite/probes/peaks.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace noisemark::suite {
namespace {

TEST(GemmPeak, is_at_least_what_one_product_reaches) {
  const double peak = measure_gemm_peak(at::kCPU, at::kFloat, 0.2).flop_per_s;
  const at::Tensor a = at::ones({64, 64});
  const auto begin = std::chrono::steady_clock::now();
  at::mm(a, a);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(peak, 2.0 * 64 * 64 * 64 / took.count() / 10);
  EXPECT_LT(peak, 1e15);
}

TEST(GemmPeak, keeps_to_its_time_roughly) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_GT(measure_gemm_peak(at::kCPU, at::kFloat, 0.01).flop_per_s, 0);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 1);  // far above 0.01 s: the machine may be busy
}

TEST(GemmPeak, names_the_sizes_that_were_timed_and_no_others) {
  EXPECT_EQ(gemm_peak_method({1e9, {512, 1024}}), "best call of square at::mm, n = 512, 1024");
  EXPECT_EQ(gemm_peak_method({1e9, {512}, ProductBy::kConvolution}),
            "best call of a square product as oneDNN's 1x1 convolution, n = 512");
  // Two products of 1024 in 10 us would be 429 TFLOP/s, which no CPU has.
  EXPECT_EQ(measure_gemm_peak(at::kCPU, at::kFloat, 1e-5).sizes, std::vector<int64_t>{512});
}

/// If MKL is slower than oneDNN, a network of convolutions would be above the peak of at::mm.
TEST(GemmPeak, is_at_least_what_a_convolution_of_the_same_products_reaches) {
  const double peak = measure_gemm_peak(at::kCPU, at::kFloat, 0.5).flop_per_s;
  const at::Tensor pixels = at::ones({1, 512, 32, 16}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor weight = at::ones({512, 512, 1, 1});
  double least_s = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    (void)at::conv2d(pixels, weight);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    least_s = std::min(least_s, took.count());
  }
  // Half of it: the machine may be busy with something else now and not then.
  EXPECT_GT(peak, 2.0 * 512 * 512 * 512 / least_s / 2);
}

}  // namespace
}  // namespace noisemark::suite
