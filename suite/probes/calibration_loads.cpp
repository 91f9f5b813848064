#include "suite/probes/calibration_loads.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <functional>
#include <thread>

#include "memopt/device_parts.h"
#include "suite/probes/device_window.h"
#include "suite/probes/operator_profile.h"

namespace noisemark::suite {
namespace {

using Clock = std::chrono::steady_clock;

/// Pieces between two looks at the clock: long enough that waiting for the device costs nothing.
constexpr int kPiecesAtOnce = 32;
constexpr auto kNap = std::chrono::milliseconds(1);

/// One piece of a load, handed out without waiting for it.
std::function<void()> piece_of(CalibrationLoad load, c10::Device device, const LoadSize& size) {
  if (load == CalibrationLoad::kIdle) {
    return [] { std::this_thread::sleep_for(kNap); };
  }
  if (load == CalibrationLoad::kCopy) {
    const auto options = at::TensorOptions().device(device).dtype(at::kByte);
    const at::Tensor from = at::empty({size.copy_bytes}, options).zero_();
    const at::Tensor to = at::empty({size.copy_bytes}, options);
    return [from, to] { to.copy_(from); };
  }
  const auto options = at::TensorOptions().device(device).dtype(size.type);
  const at::Tensor left = at::randn({size.product, size.product}, options);
  const at::Tensor right = at::randn({size.product, size.product}, options);
  at::Tensor result = at::empty({size.product, size.product}, options);
  return [left, right, result]() mutable { at::mm_out(result, left, right); };
}

double flop_of(CalibrationLoad load, const LoadSize& size) {
  if (load != CalibrationLoad::kProduct) return 0;
  const auto n = static_cast<double>(size.product);
  return 2 * n * n * n;
}

}  // namespace

CalibrationRow measure_load(CalibrationLoad load, c10::Device device, GpuCounters& counters,
                            double seconds, const LoadSize& size) {
  const c10::NoGradGuard no_grad;
  const auto clock = memopt::make_device_clock(device);
  const std::function<void()> piece = piece_of(load, device, size);
  ProfileOptions how;
  how.steps = size.profiled;
  const OperatorProfile profile = profile_operators(piece, device, how);
  clock->synchronize();
  WindowWork work;
  work.busy = profile.busy;
  if (!work.busy) work.busy_missing = "the profiler saw no kernel";
  DeviceWatch watch(counters);
  const auto begin = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
    for (int i = 0; i < kPiecesAtOnce; ++i) piece();
    clock->synchronize();
    work.steps += kPiecesAtOnce;
  }
  const DeviceWindow window = watch.stop();
  work.flop = flop_of(load, size) * static_cast<double>(work.steps);
  return {load, device_use(window, work)};
}

}  // namespace noisemark::suite
