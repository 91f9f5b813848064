#include "tests/suite/probes/column_calibration.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/bitwise_not.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "memopt/device/device_clock.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "suite/environment/pm_sampling.h"
#include "suite/probes/device_window.h"
#include "suite/probes/operator_profile.h"
#include "suite/train/precision.h"

namespace noisemark::suite {
namespace {

using reports::Align;
using reports::DeviceColumn;
using reports::MarkdownTable;

struct Bound {
  CalibrationLoad load;
  std::string_view column;
  bool at_least;
  double frac;
};
/// Large products of tensor cores, and copies that are many times the caches, reach well above this
/// on every GPU that NVIDIA publishes figures of; a column that is another reads next to nothing.
constexpr double kBusy = 0.80;
/// cuBLAS issues an addition and multiplication in most of a large fp32 product's cycles, but needs
/// others to load and to count, and the clock may yield to the power limit: half is safely above
/// what other loads do and below what this one does.
constexpr double kHalfBusy = 0.50;
/// The work beside a load (its first and last pieces, another program's screen) is less. Outside
/// of its sums a product of 8192 in 16 bits does one rounding per 8192 steps, by other pipes.
constexpr double kStill = 0.01;
constexpr std::array kBounds{
    Bound{CalibrationLoad::kProduct, "tensor_active", true, kBusy},
    Bound{CalibrationLoad::kProduct, "sm_active", true, kBusy},
    Bound{CalibrationLoad::kHalfProduct, "tensor_active", true, kBusy},
    Bound{CalibrationLoad::kHalfProduct, "tensor_half_active", true, kBusy},
    Bound{CalibrationLoad::kHalfProduct, "fp16_active", false, kStill},
    Bound{CalibrationLoad::kFloatProduct, "fp32_active", true, kHalfBusy},
    Bound{CalibrationLoad::kFloatProduct, "sm_active", true, kBusy},
    Bound{CalibrationLoad::kFloatProduct, "tensor_active", false, kStill},
    Bound{CalibrationLoad::kFloatProduct, "fp16_active", false, kStill},
    Bound{CalibrationLoad::kCopy, "dram_active", true, kBusy},
    Bound{CalibrationLoad::kCopy, "tensor_active", false, kStill},
    Bound{CalibrationLoad::kIdle, "sm_active", false, kStill},
    Bound{CalibrationLoad::kIdle, "tensor_active", false, kStill},
    Bound{CalibrationLoad::kIdle, "fp32_active", false, kStill},
    Bound{CalibrationLoad::kIdle, "fp16_active", false, kStill},
    Bound{CalibrationLoad::kIdle, "dram_active", false, kStill}};
constexpr double kTwoPoints = 0.02;

const DeviceColumn* find_column(const CalibrationRow& row, std::string_view name) {
  for (const DeviceColumn& column : row.use.columns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

std::string words_of(const DeviceColumn* column) {
  if (column == nullptr) return "no such column";
  return column->value ? reports::format_percent(*column->value) : column->missing_reason;
}

CalibrationCheck check_bound(const CalibrationRow& row, const Bound& bound) {
  const DeviceColumn* column = find_column(row, bound.column);
  CalibrationCheck check;
  check.what =
      fmt::format("{}: {} is {} {}", load_name(row.load), bound.column,
                  bound.at_least ? "at least" : "at most", reports::format_percent(bound.frac));
  check.found = words_of(column);
  if (column != nullptr && column->value) {
    check.holds = bound.at_least ? *column->value >= bound.frac : *column->value <= bound.frac;
  }
  return check;
}

/// Busy time by the profile and by the GPU's own counter. Copies count, as they do for the counter.
CalibrationCheck check_agreement(const CalibrationRow& row) {
  const DeviceColumn* profiled = find_column(row, "device_busy");
  const DeviceColumn* counted = find_column(row, "graphics_active");
  CalibrationCheck check;
  check.what = fmt::format("{}: device_busy is within {} of graphics_active", load_name(row.load),
                           reports::format_percent(kTwoPoints));
  check.found = fmt::format("{} and {}", words_of(profiled), words_of(counted));
  if (profiled != nullptr && counted != nullptr && profiled->value && counted->value) {
    check.holds = std::abs(*profiled->value - *counted->value) <= kTwoPoints;
  }
  return check;
}

/// Both sources read the same, and the load leaves it no room: a share of the memory's time also
/// depends on the multiprocessors' clock, which sampling may hold, where the memory is not the
/// limit.
bool must_agree(const SampledMetric& metric, CalibrationLoad load) {
  if (metric.gpm_name == "dram_active") {
    return load == CalibrationLoad::kCopy || load == CalibrationLoad::kIdle;
  }
  return metric.same_definition;
}

/// NVML's shares and those sampled by CUPTI, in windows of the same load: the two that differ most.
CalibrationCheck check_sampled(const CalibrationRow& row) {
  CalibrationCheck check;
  check.what = fmt::format("{}: sampled columns are within {} of NVML's", load_name(row.load),
                           reports::format_percent(kTwoPoints));
  double most = -1;
  for (const SampledMetric& metric : sampled_metrics()) {
    if (!must_agree(metric, row.load)) continue;
    const DeviceColumn* sampled = find_column(row, metric.name);
    const DeviceColumn* counted = find_column(row, metric.gpm_name);
    const bool both = sampled != nullptr && counted != nullptr && sampled->value && counted->value;
    if (!both && check.found.empty()) {
      check.found =
          fmt::format("{}: {} and {}", metric.gpm_name, words_of(counted), words_of(sampled));
    }
    if (!both || std::abs(*sampled->value - *counted->value) <= most) continue;
    most = std::abs(*sampled->value - *counted->value);
    check.holds = most <= kTwoPoints;
    check.found =
        fmt::format("{}: {} and {}", metric.gpm_name, words_of(counted), words_of(sampled));
  }
  return check;
}

MarkdownTable columns_table(const std::vector<CalibrationRow>& rows) {
  std::vector<MarkdownTable::Column> titles{{"column"}};
  for (const CalibrationRow& row : rows) {
    titles.push_back({std::string(load_name(row.load)), Align::kRight});
  }
  titles.push_back({"source"});
  MarkdownTable table(titles);
  if (rows.empty()) return table;
  for (size_t i = 0; i < rows.front().use.columns.size(); ++i) {
    const DeviceColumn& first = rows.front().use.columns[i];
    std::vector<std::string> cells{first.name};
    for (const CalibrationRow& row : rows) {
      const DeviceColumn* column = find_column(row, first.name);
      cells.push_back(column != nullptr && column->value
                          ? reports::format_quantity(*column->value, column->unit)
                          : "none");
    }
    cells.push_back(first.source);
    table.add_row(cells);
  }
  return table;
}

}  // namespace

const std::vector<CalibrationLoad>& calibration_loads() {
  static const std::vector<CalibrationLoad> kLoads{
      CalibrationLoad::kIdle, CalibrationLoad::kCopy, CalibrationLoad::kProduct,
      CalibrationLoad::kHalfProduct, CalibrationLoad::kFloatProduct};
  return kLoads;
}

std::string_view load_name(CalibrationLoad load) {
  switch (load) {
    case CalibrationLoad::kIdle:
      return "idle";
    case CalibrationLoad::kCopy:
      return "copy";
    case CalibrationLoad::kProduct:
      return "product";
    case CalibrationLoad::kHalfProduct:
      return "fp16 product";
    case CalibrationLoad::kFloatProduct:
      return "fp32 product";
  }
  throw std::logic_error("a load that is none");
}

std::vector<CalibrationCheck> check_columns(const std::vector<CalibrationRow>& rows) {
  std::vector<CalibrationCheck> checks;
  for (const CalibrationRow& row : rows) {
    for (const Bound& bound : kBounds) {
      if (bound.load == row.load) checks.push_back(check_bound(row, bound));
    }
    if (row.load != CalibrationLoad::kIdle) checks.push_back(check_agreement(row));
    checks.push_back(check_sampled(row));
  }
  return checks;
}

std::string calibration_text(const std::vector<CalibrationRow>& rows,
                             const std::vector<CalibrationCheck>& checks) {
  MarkdownTable verdicts({{"must hold"}, {"found"}, {"verdict"}});
  for (const CalibrationCheck& check : checks) {
    const char* verdict = !check.holds ? "not known" : *check.holds ? "holds" : "**does not hold**";
    verdicts.add_row({check.what, check.found, verdict});
  }
  std::string text = "# Columns of a GPU under known loads\n\n";
  text += columns_table(rows).text();
  for (const CalibrationRow& row : rows) {
    text +=
        fmt::format("\n{}: {}; clocks held down by {}.\n", load_name(row.load),
                    reports::format_seconds(row.use.window_s),
                    row.use.clock_reasons.empty() ? "what is not known" : row.use.clock_reasons);
  }
  return text + fmt::format("\n{}", verdicts.text());
}

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

/// Returns how many pieces took `seconds` of the window. A profile keeps a few hundred bytes of
/// each.
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

/// The readings beside a load.
struct LoadReading {
  CalibrationLoad load;
  DeviceWindow window;
  WindowWork work;
};

LoadReading read_load(CalibrationLoad load, c10::Device device, const LoadReaders& readers,
                      double seconds, const LoadSize& size) {
  const auto clock = memopt::make_device_clock(device);
  const std::function<void()> piece = piece_of(load, device, size);
  piece();  // libraries choose and take memory in it
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
