#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "baselines/ops.h"

namespace noisemark::baselines {

/// The execution of the locked computation. Every combination computes the same function.
struct Execution {
  bool channels_last = false;  ///< NHWC memory for weights and activations
  bool fused = false;          ///< fused_ops() instead of plain_ops(): fp32, tf32 or bf16
  bool cuda_graph = false;     ///< the device repeats the recorded step (device_parts.h): CUDA
  bool autotuned = false;      ///< cuDNN times its algorithms and takes the fastest: CUDA
  bool pooled_memory = false;  ///< the C library keeps freed memory instead of giving it back to
                               ///< the system each step
  std::string precision{};     ///< forced precision ("bf16"), empty: the run's own

  [[nodiscard]] const Ops& ops() const { return fused ? fused_ops() : plain_ops(); }
};

struct BaselineEntry {
  std::string_view name;     ///< name on the command line
  std::string_view summary;  ///< one line for `noisemark list`
  Execution execution;
};

/// Constant table, in the order reports show them; "plain" is first.
[[nodiscard]] const std::vector<BaselineEntry>& baselines();

/// "plain", or names joined by "+", each at most once, in table order ("fused+channels-last").
/// Throws std::invalid_argument with the nearest valid spelling otherwise.
[[nodiscard]] Execution parse_baseline(std::string_view spelling);

/// Turns on what lives outside the model (the pooled C library allocator) for the rest of the
/// process. Call it before threads are started.
void apply_process_settings(const Execution& execution);

}  // namespace noisemark::baselines
