#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reports/result/result.h"
#include "suite/environment/gpu_counters.h"
#include "suite/environment/pm_sampling.h"

/// Tells how long a device was at work, from what ran on it and when.

namespace noisemark::suite {

/// [begin, end) of something that ran on a device.
struct BusySpan {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

/// The work that ran on one device in some steps.
struct DeviceActivity {
  std::vector<BusySpan> kernels;
  std::vector<BusySpan> copies;  ///< memory copied or set
};

/// The busy time of a step. Overlapping kernels of several streams count once in what is merged.
struct BusyTime {
  double kernel_s = 0;  ///< time in which a kernel ran
  double busy_s = 0;    ///< time in which a kernel or copy ran
  double kernels = 0;   ///< number of kernels
};

/// Length of the union. Spans may lie in any order, overlap and touch; one that ends before it
/// begins counts nothing.
[[nodiscard]] int64_t merged_ns(std::vector<BusySpan> spans);

/// Returns the times per step, of `steps`.
[[nodiscard]] BusyTime busy_time(const DeviceActivity& activity, int steps);

/// A sampled metric and the window that it was sampled in.
struct SampledShare {
  SampledValue value;
  double window_s = 0;  ///< 0: in none
};

/// Runs `work`, which leaves the device idle, once in every window of `counters`; each is expected
/// to last `expected_s`. One for each of sampled_metrics().
[[nodiscard]] std::vector<SampledShare> sample_windows(SampledCounters& counters, double expected_s,
                                                       const std::function<void()>& work);

/// The readings of a GPU in one window of time.
struct DeviceWindow {
  double window_s = 0;
  std::vector<GpmValue> shares;    ///< one for each of gpm_metrics()
  std::optional<double> energy_j;  ///< energy that the window spent
  std::vector<reports::DeviceReading> readings;
  std::optional<size_t> other_processes;  ///< on the GPU at its end, of which the shares are too
  std::optional<unsigned> instance;       ///< GPU instance (MIG) that the shares are of
  std::vector<SampledShare> sampled;      ///< one for each of sampled_metrics(), in later windows
};

/// Reads a GPU from its construction until stop(), on a thread of its own: counters at both ends,
/// and in between power, clocks and temperature every `interval_s`.
class DeviceWatch {
 public:
  /// `counters` must outlive it.
  explicit DeviceWatch(GpuCounters& counters, double interval_s = 0.1);
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Ends the window. Call once, with the device idle: what was handed out is then done.
  [[nodiscard]] DeviceWindow stop();

 private:
  void read_until_told();
  void join();

  GpuCounters& counters_;
  const double interval_s_;
  int64_t begin_ns_ = 0;
  std::optional<uint64_t> begin_mj_;
  std::vector<reports::DeviceReading> readings_;
  std::mutex mutex_;
  std::condition_variable told_;
  bool stop_ = false;
  std::thread thread_;
};

/// The work that went on in a window.
struct WindowWork {
  int64_t steps = 0;
  int64_t images = 0;
  std::optional<BusyTime> busy;  ///< busy time of a step, from a profile of the same steps
  std::string busy_missing;      ///< why there is none
  double flop = 0;               ///< floating-point operations of all steps
  double peak_flop_per_s = 0;    ///< peak of the device at this precision; 0: not measured
};

/// The columns of a window, in a fixed order: busy time, GPM's shares, sampled shares, arithmetic,
/// power, energy, clocks, temperature. What could not be had is there with its reason. NVML's
/// shares of what kernels alone use (FP32, FP16, tensor cores, multiprocessors) are given over wall
/// time and while kernels ran, whose time is the profile's. A pure function.
[[nodiscard]] reports::DeviceUse device_use(const DeviceWindow& window, const WindowWork& work);

/// "power cap (12 of 56 readings), idle (1 of 56 readings)": what held clocks down in any reading,
/// the most frequent first; "nothing" or, where no reading knows, "".
[[nodiscard]] std::string clock_reasons_of(const std::vector<reports::DeviceReading>& readings);

}  // namespace noisemark::suite
