#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reports/result/result.h"
#include "suite/probes/device_window.h"

namespace noisemark::suite {

struct OperatorProfile {
  std::vector<reports::OperatorRow> operators;  ///< rows with falling self time
  double overhead_frac = 0;      ///< relative slow-down of a profiled step: with / without - 1
  std::optional<BusyTime> busy;  ///< GPU's busy time per profiled step; empty on a CPU, and where
                                 ///< the profiler saw nothing on the device
  double step_s = 0;             ///< time without the profiler
  reports::ConvolutionKernels convolutions;
};

struct ProfileOptions {
  int steps = 3;           ///< number that is profiled, and as many without the profiler before
  std::string trace_path;  ///< file for a Chrome trace; empty: none
};

/// Counts the steps that profile_operators() runs.
[[nodiscard]] int64_t steps_of_profile(c10::Device device, int64_t steps);

/// Runs `step` under LibTorch's profiler (kineto) and sums up self time by operator: on a CPU the
/// time of the calling thread less that of the operators called, on a GPU the time of the kernels
/// that the operator launched. FLOPs are counted in a step of their own, and on
/// a GPU the kernels of convolutions looked for in `steps` of their own.
/// Throws noisemark::Error (cannot write) when the trace cannot be written.
[[nodiscard]] OperatorProfile profile_operators(const std::function<void()>& step,
                                                c10::Device device,
                                                const ProfileOptions& options = {});

}  // namespace noisemark::suite
