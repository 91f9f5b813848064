#include "suite/probes/peaks.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mkldnn_convolution.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <functional>
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

namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

std::vector<int64_t> working_sets(c10::Device device) {
  std::vector<int64_t> sizes;
  const int64_t largest = device.is_cpu() ? 256 * kMiB : 1024 * kMiB;
  for (int64_t bytes = device.is_cpu() ? 64 * kKiB : kMiB; bytes <= largest; bytes *= 2) {
    sizes.push_back(bytes);
  }
  return sizes;
}

/// The shortest of some calls, after one that does not count.
double best_s(const std::function<void()>& call, double seconds, memopt::DeviceClock& clock) {
  const auto timed = [&] {
    clock.clear();
    const auto begin = clock.mark();
    call();
    const auto end = clock.mark();
    clock.synchronize();
    return clock.seconds_between(begin, end);
  };
  timed();
  double best = timed();
  for (double spent_s = best; spent_s < seconds;) {
    const double took_s = timed();
    best = std::min(best, took_s);
    spent_s += std::max(took_s, 1e-6);  // a clock that stands still must not stop this loop's end
  }
  return best;
}

}  // namespace

std::vector<reports::MemoryPeak> measure_memory_peaks(c10::Device device, double seconds) {
  const c10::NoGradGuard no_grad;
  const auto clock = memopt::make_device_clock(device);
  const std::vector<int64_t> sizes = working_sets(device);
  constexpr int kCalls = 4;
  const double share_s = seconds / static_cast<double>(kCalls * sizes.size());
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  std::vector<reports::MemoryPeak> peaks;
  for (const int64_t bytes : sizes) {
    const auto elements = bytes / static_cast<int64_t>(sizeof(float));
    const at::Tensor whole = at::zeros({elements}, options);
    const at::Tensor first = whole.slice(0, 0, elements / 2);
    const at::Tensor second = whole.slice(0, elements / 2);
    at::Tensor sum = at::zeros({}, options);
    const double least_s =
        std::min({best_s([&] { whole.fill_(1.0F); }, share_s, *clock),
                  best_s([&] { at::sum_out(sum, whole, at::IntArrayRef{0}); }, share_s, *clock),
                  best_s([&] { first.copy_(second); }, share_s, *clock),
                  // It moves three halves, and a memory that is read before it is written is not
                  // fetched once more.
                  best_s([&] { first.add_(second); }, share_s, *clock) * 2 / 3});
    peaks.push_back({at::get_num_threads(), bytes, static_cast<double>(bytes) / least_s});
  }
  return peaks;
}

}  // namespace noisemark::suite
