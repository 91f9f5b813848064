#include "suite/probes/memory_peak.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <functional>

#include "memopt/device/device_clock.h"

namespace noisemark::suite {
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
