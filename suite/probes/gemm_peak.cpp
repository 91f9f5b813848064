#include "suite/probes/gemm_peak.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mkldnn_convolution.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

#include "memopt/device/device_clock.h"

namespace noisemark::suite {
namespace {

std::vector<int64_t> sizes_for(at::Device device) {
  if (device.is_cpu()) return {512, 1024, 2048, 4096};
  return {2048, 4096, 8192, 16384};
}

double flops_of(int64_t size) {
  return 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
}

/// Numbers in [-1, 1] without a pattern, of which no generator knows: a GPU multiplies constants
/// with less power, and so faster, than what a network holds.
at::Tensor scattered(int64_t size, const at::TensorOptions& options) {
  constexpr double kTurn = 12.9898;
  return at::arange(size * size, options.dtype(at::kFloat))
      .mul_(kTurn)
      .sin_()
      .reshape({size, size})
      .to(c10::typeMetaToScalarType(options.dtype()));
}

class SquareProduct {
 public:
  SquareProduct(at::Device device, at::ScalarType type, int64_t size)
      : options_(at::TensorOptions().device(device).dtype(type)),
        left_(scattered(size, options_)),
        right_(scattered(size, options_)),
        result_(at::empty({size, size}, options_)) {}

  double run(ProductBy by, memopt::DeviceClock& clock) {
    clock.clear();
    const auto begin = clock.mark();
    if (by == ProductBy::kMm) {
      at::mm_out(result_, left_, right_);
    } else {
      convolve();
    }
    const auto end = clock.mark();
    clock.synchronize();
    return clock.seconds_between(begin, end);
  }

 private:
  /// Pixels with n channels side by side, which is how a row of the matrix lies too.
  void convolve() {
    const int64_t size = left_.size(0);
    constexpr int64_t kRows = 16;
    const at::Tensor pixels = left_.view({1, kRows, size / kRows, size}).permute({0, 3, 1, 2});
    (void)at::mkldnn_convolution(pixels, right_.view({size, size, 1, 1}), {}, {0, 0}, {1, 1},
                                 {1, 1}, 1);
  }

  at::TensorOptions options_;
  at::Tensor left_, right_, result_;
};

/// oneDNN's own products in the other types are what at::mm calls.
std::vector<ProductBy> routines(at::Device device, at::ScalarType type) {
  const bool one_dnn = at::globalContext().userEnabledMkldnn() && at::hasMKLDNN();
  if (!device.is_cpu() || type != at::kFloat || !one_dnn) return {ProductBy::kMm};
  return {ProductBy::kMm, ProductBy::kConvolution};
}

}  // namespace

GemmPeak measure_gemm_peak(at::Device device, at::ScalarType type, double seconds) {
  const c10::NoGradGuard no_grad;
  const auto clock = memopt::make_device_clock(device);
  const std::vector<int64_t> sizes = sizes_for(device);
  const std::vector<ProductBy> all = routines(device, type);
  const double share_s = seconds / static_cast<double>(sizes.size() * all.size());
  GemmPeak peak;
  for (const int64_t size : sizes) {
    // Two calls of a size that takes longer than the whole budget are not worth waiting for.
    if (peak.flop_per_s > 0 && 2 * flops_of(size) / peak.flop_per_s > seconds) break;
    SquareProduct product(device, type, size);
    for (const ProductBy by : all) {
      product.run(by, *clock);
      for (double spent_s = 0; spent_s < share_s;) {
        const double took_s = product.run(by, *clock);
        if (flops_of(size) / took_s > peak.flop_per_s) {
          peak.flop_per_s = flops_of(size) / took_s;
          peak.by = by;
        }
        spent_s += took_s;
      }
    }
    peak.sizes.push_back(size);
  }
  return peak;
}

std::string gemm_peak_method(const GemmPeak& peak) {
  std::string method = peak.by == ProductBy::kMm
                           ? "best call of square at::mm, n ="
                           : "best call of a square product as oneDNN's 1x1 convolution, n =";
  for (const int64_t size : peak.sizes) {
    method += (method.back() == '=' ? " " : ", ") + std::to_string(size);
  }
  return method;
}

}  // namespace noisemark::suite
