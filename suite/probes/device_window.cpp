#include "suite/probes/device_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "suite/environment/graphics.h"

namespace noisemark::suite {

int64_t merged_ns(std::vector<BusySpan> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const BusySpan& a, const BusySpan& b) { return a.begin_ns < b.begin_ns; });
  int64_t total_ns = 0;
  int64_t covered_until_ns = std::numeric_limits<int64_t>::min();
  for (const BusySpan& span : spans) {
    const int64_t begin_ns = std::max(span.begin_ns, covered_until_ns);
    if (span.end_ns <= begin_ns) continue;
    total_ns += span.end_ns - begin_ns;
    covered_until_ns = span.end_ns;
  }
  return total_ns;
}

BusyTime busy_time(const DeviceActivity& activity, int steps) {
  const auto seconds_per_step = [&](int64_t ns) {
    return static_cast<double>(ns) * kSecondsPerNanosecond / steps;
  };
  BusyTime result;
  result.kernel_s = seconds_per_step(merged_ns(activity.kernels));
  std::vector<BusySpan> all = activity.kernels;
  all.insert(all.end(), activity.copies.begin(), activity.copies.end());
  result.busy_s = seconds_per_step(merged_ns(std::move(all)));
  result.kernels = static_cast<double>(activity.kernels.size()) / steps;
  return result;
}

std::vector<SampledShare> sample_windows(SampledCounters& counters, double expected_s,
                                         const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const SamplingWindows& chosen = counters.sampled();
  std::vector<SampledShare> shares(chosen.missing.size());
  for (size_t i = 0; i < shares.size(); ++i) shares[i].value.missing_reason = chosen.missing[i];
  for (size_t w = 0; w < chosen.windows.size(); ++w) {
    counters.begin(w, expected_s);
    const auto begin = Clock::now();
    work();
    const double window_s = std::chrono::duration<double>(Clock::now() - begin).count();
    std::vector<SampledValue> values = counters.end(window_s);
    const std::vector<size_t>& metrics = chosen.windows[w].metrics;
    for (size_t i = 0; i < metrics.size() && i < values.size(); ++i) {
      shares.at(metrics[i]) = {std::move(values[i]), window_s};
    }
  }
  return shares;
}

namespace {

using reports::DeviceColumn;
using reports::DeviceReading;

constexpr double kJoulesPerMillijoule = 1e-3;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double seconds_since(int64_t begin_ns) {
  return static_cast<double>(now_ns() - begin_ns) * kSecondsPerNanosecond;
}

DeviceColumn column_of(const std::string& name, const std::string& unit, double window_s,
                       const std::string& source) {
  DeviceColumn column;
  column.name = name;
  column.unit = unit;
  column.window_s = window_s;
  column.source = source;
  return column;
}

/// The profiled steps are others than the window's, so noise may add up to more than all the time.
constexpr double kMostBusy = 1.02;

/// Returns the share of the window's time that a step's busy seconds take.
std::optional<double> share_of(double step_s, double window_s, int64_t steps) {
  if (!(window_s > 0) || steps == 0) return std::nullopt;
  const double share = step_s * static_cast<double>(steps) / window_s;
  return share <= kMostBusy ? std::optional(std::min(share, 1.0)) : std::nullopt;
}

DeviceColumn busy_column(const std::string& name, double BusyTime::*seconds,
                         const DeviceWindow& window, const WindowWork& work,
                         const std::string& what) {
  DeviceColumn column =
      column_of(name, "frac", window.window_s,
                what + " in the profile (CUPTI by kineto), per step, over this window's steps");
  if (!work.busy) {
    column.missing_reason = work.busy_missing;
    return column;
  }
  column.value = share_of((*work.busy).*seconds, window.window_s, work.steps);
  if (!column.value) {
    column.missing_reason = work.steps == 0 ? "the window has no step"
                                            : "the profiled steps took longer than the window's";
  }
  return column;
}

/// The kernels' share of the time; empty where it is not known or cannot divide.
std::optional<double> kernel_share(double window_s, const WindowWork& work) {
  if (!work.busy || !(work.busy->kernel_s > 0)) return std::nullopt;
  return share_of(work.busy->kernel_s, window_s, work.steps);
}

/// A share while kernels ran; empty where noise makes it more than all that there is.
std::optional<double> while_kernels_ran(double share, std::optional<double> kernels) {
  if (!kernels || share / *kernels > kMostBusy) return std::nullopt;
  return std::min(share / *kernels, 1.0);
}

/// Says whose share it is, where it is not that of this program on the whole GPU.
std::string beside(const DeviceWindow& window) {
  std::string words =
      window.instance ? fmt::format(", of GPU instance {}", *window.instance) : std::string();
  const size_t others = window.other_processes.value_or(0);
  if (others == 0) return words;
  return words + fmt::format(", of {} other process{} too", others, others == 1 ? "" : "es");
}

/// Marks what NVML says of a divided GPU only as a whole.
std::string of_whole(const DeviceWindow& window) {
  return window.instance ? ", of the whole GPU with all its instances" : "";
}

/// Time without a kernel adds nothing to what the multiprocessors do, but copies use the memory.
bool is_of_kernels(std::string_view gpm_name) {
  return gpm_name != "graphics_active" && gpm_name != "dram_active";
}

DeviceColumn gpm_column(const GpmMetric& metric, const GpmValue& value, const DeviceWindow& window,
                        std::optional<double> kernels) {
  DeviceColumn column = column_of(std::string(metric.name), "frac", window.window_s,
                                  fmt::format("NVML GPM {}{}", metric.called, beside(window)));
  column.value = value.frac;
  column.missing_reason = value.missing_reason;
  if (value.frac && is_of_kernels(metric.name)) {
    column.over_kernels = while_kernels_ran(*value.frac, kernels);
  }
  return column;
}

DeviceColumn sampled_column(const SampledMetric& metric, const SampledShare& share,
                            const DeviceWindow& window) {
  const SampledValue& value = share.value;
  std::string source = "CUPTI PM sampling";
  if (!value.called.empty()) source += " of " + value.called;
  if (value.frac) source += fmt::format(", every {:.3g} ms", 1e3 * value.interval_s);
  DeviceColumn column =
      column_of(std::string(metric.name), "frac", share.window_s, source + beside(window));
  column.value = value.frac;
  column.missing_reason = value.missing_reason;
  if (!value.frac) return column;
  // None over kernels' time: sampling may hold the clocks, and the profile's kernels ran without.
  column.lowest = value.lowest;
  column.highest = value.highest;
  column.readings = value.samples;
  return column;
}

void add_sampled(const DeviceWindow& window, std::vector<DeviceColumn>& columns) {
  SampledShare unread;
  unread.value.missing_reason = "it was not read";
  const std::vector<SampledMetric>& metrics = sampled_metrics();
  for (size_t i = 0; i < metrics.size(); ++i) {
    const SampledShare& share = i < window.sampled.size() ? window.sampled[i] : unread;
    columns.push_back(sampled_column(metrics[i], share, window));
  }
}

DeviceColumn flop_column(const DeviceWindow& window, const WindowWork& work,
                         std::optional<double> kernels) {
  DeviceColumn column =
      column_of("flop_of_peak", "frac", window.window_s,
                "counted operations over the measured matrix-product peak of this precision");
  if (!(work.peak_flop_per_s > 0) || !(window.window_s > 0)) {
    column.missing_reason = "no peak was measured";
    return column;
  }
  column.value = work.flop / window.window_s / work.peak_flop_per_s;
  if (kernels) column.over_kernels = *column.value / *kernels;
  return column;
}

/// Mean, lowest and highest of the readings that have the figure.
DeviceColumn reading_column(const std::string& name, const std::string& unit,
                            std::optional<double> DeviceReading::*figure,
                            const DeviceWindow& window) {
  DeviceColumn column = column_of(name, unit, window.window_s, "NVML" + of_whole(window));
  std::vector<double> values;
  for (const DeviceReading& reading : window.readings) {
    if (reading.*figure) values.push_back(*(reading.*figure));
  }
  if (values.empty()) {
    column.missing_reason = "the driver does not say it for this GPU";
    return column;
  }
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  column.lowest = *low;
  column.highest = *high;
  column.readings = static_cast<int64_t>(values.size());
  column.value =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return column;
}

DeviceColumn energy_column(const DeviceWindow& window, const WindowWork& work) {
  DeviceColumn column =
      column_of("energy_per_image", "J", window.window_s,
                "NVML's counter of energy over the window's images" + of_whole(window));
  if (!window.energy_j) {
    column.missing_reason = "the driver does not count energy for this GPU";
  } else if (work.images == 0) {
    column.missing_reason = "the window has no image";
  } else {
    column.value = *window.energy_j / static_cast<double>(work.images);
  }
  return column;
}

}  // namespace

DeviceWatch::DeviceWatch(GpuCounters& counters, double interval_s)
    : counters_(counters), interval_s_(interval_s) {
  counters_.begin_window();
  begin_mj_ = counters_.energy_mj();
  begin_ns_ = now_ns();
  thread_ = std::thread([this] { read_until_told(); });
}

DeviceWatch::~DeviceWatch() {
  join();
}

void DeviceWatch::read_until_told() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    DeviceReading reading = counters_.read();
    reading.at_s = seconds_since(begin_ns_);
    lock.lock();
    readings_.push_back(reading);
    told_.wait_for(lock, std::chrono::duration<double>(interval_s_), [this] { return stop_; });
  }
}

void DeviceWatch::join() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  told_.notify_all();
  if (thread_.joinable()) thread_.join();
}

DeviceWindow DeviceWatch::stop() {
  DeviceWindow window;
  const auto end_mj = counters_.energy_mj();
  window.window_s = seconds_since(begin_ns_);
  window.shares = counters_.end_window(window.window_s);
  join();
  if (begin_mj_ && end_mj && *end_mj >= *begin_mj_) {
    window.energy_j = static_cast<double>(*end_mj - *begin_mj_) * kJoulesPerMillijoule;
  }
  window.readings = std::move(readings_);
  window.other_processes = counters_.other_processes();
  window.instance = counters_.instance();
  return window;
}

std::string clock_reasons_of(const std::vector<DeviceReading>& readings) {
  std::map<uint64_t, int64_t> counts;  // number of each bit
  int64_t known = 0;
  for (const DeviceReading& reading : readings) {
    if (!reading.clock_reasons) continue;
    ++known;
    for (auto mask = static_cast<uint64_t>(*reading.clock_reasons); mask != 0; mask &= mask - 1) {
      ++counts[uint64_t{1} << std::countr_zero(mask)];
    }
  }
  if (known == 0) return "";
  std::vector<std::pair<uint64_t, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string words;
  for (const auto& [bit, count] : sorted) {
    words += fmt::format("{}{} ({} of {} readings)", words.empty() ? "" : ", ", clock_reasons(bit),
                         count, known);
  }
  return words.empty() ? "nothing" : words;
}

reports::DeviceUse device_use(const DeviceWindow& window, const WindowWork& work) {
  reports::DeviceUse use;
  use.measured = true;
  use.steps = work.steps;
  use.images = work.images;
  use.window_s = window.window_s;
  use.clock_reasons = clock_reasons_of(window.readings);
  use.trace = window.readings;
  const std::optional<double> kernels = kernel_share(window.window_s, work);
  use.columns = {
      busy_column("kernel_busy", &BusyTime::kernel_s, window, work, "merged intervals of kernels"),
      busy_column("device_busy", &BusyTime::busy_s, window, work,
                  "merged intervals of kernels and copies")};
  const std::vector<GpmMetric>& metrics = gpm_metrics();
  for (size_t i = 0; i < metrics.size(); ++i) {
    const GpmValue value =
        i < window.shares.size() ? window.shares[i] : GpmValue{std::nullopt, "it was not read"};
    use.columns.push_back(gpm_column(metrics[i], value, window, kernels));
  }
  add_sampled(window, use.columns);
  use.columns.push_back(flop_column(window, work, kernels));
  use.columns.push_back(reading_column("power", "W", &DeviceReading::power_w, window));
  use.columns.back().source =
      "NVML: each reading a mean over 1 s (of GA100 and older GPUs, at its moment)" +
      of_whole(window);
  use.columns.push_back(energy_column(window, work));
  use.columns.push_back(reading_column("sm_clock", "MHz", &DeviceReading::sm_clock_mhz, window));
  use.columns.push_back(
      reading_column("memory_clock", "MHz", &DeviceReading::memory_clock_mhz, window));
  use.columns.push_back(reading_column("temperature", "C", &DeviceReading::temperature_c, window));
  return use;
}

}  // namespace noisemark::suite
