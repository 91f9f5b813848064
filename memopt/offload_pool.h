#pragma once

#include <cstdint>
#include <memory>

#include "memopt/codecs/host_offload.h"
#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// The host memory of a mode that offloads, taken once for each recorded step.
class OffloadPool {
 public:
  /// A codec with room for `bytes` on the device of the model; null when the model has no tensors.
  [[nodiscard]] std::shared_ptr<const HostOffload> of(const StepGraph& graph, int64_t bytes);

 private:
  std::shared_ptr<const HostOffload> pool_;
  c10::Device device_ = c10::Device(c10::kCPU);
  int64_t capacity_bytes_ = 0;
};

}  // namespace noisemark::memopt
