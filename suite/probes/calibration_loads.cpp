#include "suite/probes/calibration_loads.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/bitwise_not.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "memopt/device_parts.h"
#include "suite/environment/full_float32.h"
#include "suite/probes/device_window.h"
#include "suite/probes/operator_profile.h"
#include "suite/probes/sampled_window.h"

namespace noisemark::suite {
namespace {

using Clock = std::chrono::steady_clock;

/// Pieces between two looks at the clock: long enough that waiting for the device costs nothing.
constexpr int kPiecesAtOnce = 32;
constexpr auto kNap = std::chrono::milliseconds(1);

/// The type of a load's product; empty of a load that is none.
std::optional<at::ScalarType> product_type(CalibrationLoad load) {
  switch (load) {
    case CalibrationLoad::kProduct:
      return at::kBFloat16;
    case CalibrationLoad::kHalfProduct:
      return at::kHalf;
    case CalibrationLoad::kFloatProduct:
      return at::kFloat;
    case CalibrationLoad::kIdle:
    case CalibrationLoad::kCopy:
      return std::nullopt;
  }
  throw std::logic_error("a load that is none");
}

/// Reads and writes every byte. A copy of memory would do no more, but is no kernel, and which part
/// of a GPU makes it is the driver's choice.
std::function<void()> copy_piece(c10::Device device, const LoadSize& size) {
  const auto options = at::TensorOptions().device(device).dtype(at::kLong);
  const int64_t words = size.copy_bytes / static_cast<int64_t>(sizeof(int64_t));
  const at::Tensor from = at::zeros({words}, options);
  at::Tensor to = at::empty({words}, options);
  return [from, to]() mutable { at::bitwise_not_out(to, from); };
}

/// One piece of a load, handed out without waiting for it.
std::function<void()> piece_of(CalibrationLoad load, c10::Device device, const LoadSize& size) {
  if (load == CalibrationLoad::kIdle) {
    return [] { std::this_thread::sleep_for(kNap); };
  }
  const auto type = product_type(load);
  if (!type) return copy_piece(device, size);
  const auto options = at::TensorOptions().device(device).dtype(*type);
  const at::Tensor left = at::randn({size.product, size.product}, options);
  const at::Tensor right = at::randn({size.product, size.product}, options);
  at::Tensor result = at::empty({size.product, size.product}, options);
  return [left, right, result]() mutable { at::mm_out(result, left, right); };
}

double flop_of(CalibrationLoad load, const LoadSize& size) {
  if (!product_type(load)) return 0;
  const auto n = static_cast<double>(size.product);
  return 2 * n * n * n;
}

/// As many pieces as took `seconds` of the window. A profile keeps a few hundred bytes of each.
int profiled_pieces(const DeviceWindow& window, int64_t pieces, double seconds) {
  constexpr double kMost = 100'000;
  const double share = window.window_s > 0 ? seconds / window.window_s : 0;
  return static_cast<int>(std::clamp(share * static_cast<double>(pieces), 2.0, kMost));
}

/// Hands out pieces until `seconds` are over and the device is done; how many.
int64_t keep_up(const std::function<void()>& piece, memopt::DeviceClock& clock, double seconds) {
  int64_t pieces = 0;
  const auto begin = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
    for (int i = 0; i < kPiecesAtOnce; ++i) piece();
    clock.synchronize();
    pieces += kPiecesAtOnce;
  }
  return pieces;
}

/// What was read beside a load.
struct LoadReading {
  CalibrationLoad load;
  DeviceWindow window;
  WindowWork work;
};

LoadReading read_load(CalibrationLoad load, c10::Device device, const LoadReaders& readers,
                      double seconds, const LoadSize& size) {
  const auto clock = memopt::make_device_clock(device);
  const std::function<void()> piece = piece_of(load, device, size);
  piece();  // in which libraries choose and take memory
  clock->synchronize();
  LoadReading reading{load, {}, {}};
  DeviceWatch watch(readers.counters);
  reading.work.steps = keep_up(piece, *clock, seconds);
  reading.window = watch.stop();
  reading.window.sampled =
      sample_windows(readers.sampled, seconds, [&] { (void)keep_up(piece, *clock, seconds); });
  reading.work.flop = flop_of(load, size) * static_cast<double>(reading.work.steps);
  return reading;
}

CalibrationRow with_profile(LoadReading reading, c10::Device device, const LoadSize& size) {
  const auto clock = memopt::make_device_clock(device);
  const std::function<void()> piece = piece_of(reading.load, device, size);
  (void)keep_up(piece, *clock, size.profiled_s);
  ProfileOptions how;
  how.steps = profiled_pieces(reading.window, reading.work.steps, size.profiled_s);
  reading.work.busy = profile_operators(piece, device, how).busy;
  if (!reading.work.busy) reading.work.busy_missing = "the profiler saw nothing on the device";
  return {reading.load, device_use(reading.window, reading.work)};
}

}  // namespace

std::vector<CalibrationRow> measure_loads(const std::vector<CalibrationLoad>& loads,
                                          c10::Device device, const LoadReaders& readers,
                                          double seconds, const LoadSize& size) {
  const c10::NoGradGuard no_grad;
  const FullFloat32Guard full_float32(device);
  std::vector<LoadReading> readings;
  for (const CalibrationLoad load : loads) {
    readings.push_back(read_load(load, device, readers, seconds, size));
  }
  std::vector<CalibrationRow> rows;
  for (LoadReading& reading : readings) {
    rows.push_back(with_profile(std::move(reading), device, size));
  }
  return rows;
}

}  // namespace noisemark::suite
