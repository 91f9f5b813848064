#include "suite/probes/operator_profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "memopt/device/device_clock.h"
#include "reports/profile/recording.h"
#include "suite/probes/convolutions.h"
#include "suite/probes/flop_counter.h"

namespace noisemark::suite {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

struct OperatorSum {
  int64_t calls = 0;
  int64_t self_ns = 0;
};
using OperatorSums = std::map<std::string, OperatorSum>;

std::set<ActivityType> activities_of(c10::Device device) {
  if (device.is_cpu()) return {ActivityType::CPU};
  return {ActivityType::CPU, ActivityType::CUDA};
}

/// Profiles while alive, also when a step throws.
class ProfilerGuard {
 public:
  explicit ProfilerGuard(const std::set<ActivityType>& activities, bool input_shapes = false) {
    const torch::profiler::impl::ExperimentalConfig experimental;
    const kineto::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO, input_shapes,
                                        /*profile_memory=*/false, /*with_stack=*/false,
                                        /*with_flops=*/false, /*with_modules=*/false, experimental);
    kineto::prepareProfiler(config, activities);
    kineto::enableProfiler(config, activities);
  }
  ~ProfilerGuard() {
    if (running_) kineto::disableProfiler();
  }
  ProfilerGuard(const ProfilerGuard&) = delete;
  ProfilerGuard& operator=(const ProfilerGuard&) = delete;

  std::unique_ptr<kineto::ProfilerResult> stop() {
    running_ = false;
    return kineto::disableProfiler();
  }

 private:
  bool running_ = true;
};

double seconds_of_steps(const std::function<void()>& step, int steps, memopt::DeviceClock& clock) {
  clock.synchronize();
  clock.clear();
  const auto begin = clock.mark();
  for (int i = 0; i < steps; ++i) step();
  const auto end = clock.mark();
  clock.synchronize();
  return clock.seconds_between(begin, end);
}

std::vector<const kineto::KinetoEvent*> host_ranges(const kineto::ProfilerResult& result) {
  std::vector<const kineto::KinetoEvent*> ranges;
  for (const kineto::KinetoEvent& event : result.events()) {
    if (!is_host_range(event.deviceType(), type_of(event)) || event.isHiddenEvent()) continue;
    if (event.isAsync() || event.name() == "[memory]") continue;
    ranges.push_back(&event);
  }
  std::stable_sort(ranges.begin(), ranges.end(), [](const auto* a, const auto* b) {
    if (a->startThreadId() != b->startThreadId()) return a->startThreadId() < b->startThreadId();
    if (a->startNs() != b->startNs()) return a->startNs() < b->startNs();
    return a->endNs() > b->endNs();
  });
  return ranges;
}

OperatorSums host_self_times(const kineto::ProfilerResult& result) {
  struct Open {
    const kineto::KinetoEvent* event;
    OperatorSum* sum;
  };
  OperatorSums sums;
  std::vector<Open> open;
  for (const kineto::KinetoEvent* event : host_ranges(result)) {
    while (!open.empty() && (open.back().event->startThreadId() != event->startThreadId() ||
                             open.back().event->endNs() <= event->startNs())) {
      open.pop_back();
    }
    const auto duration_ns = static_cast<int64_t>(event->durationNs());
    if (!open.empty()) open.back().sum->self_ns -= duration_ns;
    OperatorSum& sum = sums[event->name()];
    ++sum.calls;
    sum.self_ns += duration_ns;
    open.push_back({event, &sum});
  }
  return sums;
}

/// Kernels carry the host range's correlation in linkedCorrelationId().
OperatorSums device_self_times(const kineto::ProfilerResult& result) {
  OperatorSums sums;
  std::unordered_map<uint64_t, OperatorSum*> by_correlation;
  for (const kineto::KinetoEvent* event : host_ranges(result)) {
    OperatorSum& sum = sums[event->name()];
    ++sum.calls;
    by_correlation[event->correlationId()] = &sum;
  }
  for (const kineto::KinetoEvent& event : result.events()) {
    if (event.deviceType() == c10::DeviceType::CPU) continue;
    const auto launcher = by_correlation.find(event.linkedCorrelationId());
    if (launcher == by_correlation.end()) continue;
    launcher->second->self_ns += static_cast<int64_t>(event.durationNs());
  }
  return sums;
}

/// Kernels and copies alone: the profiler also puts ranges of the host, waits and events on the
/// device's time line.
DeviceActivity device_activity(const kineto::ProfilerResult& result) {
  DeviceActivity activity;
  for (const kineto::KinetoEvent& event : result.events()) {
    if (event.deviceType() == c10::DeviceType::CPU) continue;
    const BusySpan span{static_cast<int64_t>(event.startNs()), static_cast<int64_t>(event.endNs())};
    const libkineto::ActivityType type = type_of(event);
    if (type == libkineto::ActivityType::CONCURRENT_KERNEL) activity.kernels.push_back(span);
    if (type == libkineto::ActivityType::GPU_MEMCPY ||
        type == libkineto::ActivityType::GPU_MEMSET) {
      activity.copies.push_back(span);
    }
  }
  return activity;
}

std::vector<reports::OperatorRow> make_rows(const OperatorSums& sums, int steps,
                                            const std::map<std::string, int64_t>& flops) {
  double total_ns = 0;
  for (const auto& [name, sum] : sums) total_ns += static_cast<double>(sum.self_ns);
  std::vector<reports::OperatorRow> rows;
  for (const auto& [name, sum] : sums) {
    reports::OperatorRow row;
    row.name = name;
    row.calls = sum.calls / steps;
    row.self_s = static_cast<double>(sum.self_ns) * kSecondsPerNanosecond / steps;
    row.share_frac = total_ns > 0 ? static_cast<double>(sum.self_ns) / total_ns : 0;
    if (const auto found = flops.find(name); found != flops.end()) row.flops = found->second;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.self_s > b.self_s; });
  return rows;
}

/// Profiles steps of their own: what it takes to keep the shapes of every operator's inputs is no
/// part of the overhead that a result states, nor of the operators' times.
reports::ConvolutionKernels profile_convolutions(const std::function<void()>& step,
                                                 c10::Device device, int steps,
                                                 memopt::DeviceClock& clock) {
  reports::ConvolutionKernels found;
  if (device.is_cpu()) {
    found.missing_reason = "on a CPU convolutions are oneDNN's, which does not name its algorithm";
    return found;
  }
  ProfilerGuard profiler(activities_of(device), /*input_shapes=*/true);
  for (int i = 0; i < steps; ++i) step();
  clock.synchronize();
  const auto result = profiler.stop();
  found.kernels = convolution_kernels(convolution_events(*result), steps);
  found.measured = !found.kernels.empty();
  if (!found.measured) found.missing_reason = "the profiler saw no kernel of a convolution";
  return found;
}

void save_trace(kineto::ProfilerResult& result, const std::string& path) {
  result.save(path);
  std::error_code error;
  if (std::filesystem::file_size(path, error) == 0 || error) {
    throw reports::unwritten_trace(path);
  }
}

}  // namespace

int64_t steps_of_profile(c10::Device device, int64_t steps) {
  return (device.is_cpu() ? 2 : 3) * steps + 1;
}

OperatorProfile profile_operators(const std::function<void()>& step, c10::Device device,
                                  const ProfileOptions& options) {
  const auto clock = memopt::make_device_clock(device);
  std::map<std::string, int64_t> flops;
  {
    const FlopCounter counter;
    step();
    flops = counter.by_operator();
  }
  const double plain_s = seconds_of_steps(step, options.steps, *clock);
  ProfilerGuard profiler(activities_of(device));
  const double profiled_s = seconds_of_steps(step, options.steps, *clock);
  const auto result = profiler.stop();
  OperatorProfile profile;
  profile.overhead_frac = profiled_s / plain_s - 1;
  profile.step_s = plain_s / options.steps;
  const DeviceActivity activity = device_activity(*result);
  if (!activity.kernels.empty() || !activity.copies.empty()) {
    profile.busy = busy_time(activity, options.steps);
  }
  profile.operators =
      make_rows(device.is_cpu() ? host_self_times(*result) : device_self_times(*result),
                options.steps, flops);
  if (!options.trace_path.empty()) save_trace(*result, options.trace_path);
  profile.convolutions = profile_convolutions(step, device, options.steps, *clock);
  return profile;
}

}  // namespace noisemark::suite
