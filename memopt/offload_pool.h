#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "memopt/codecs/host_offload.h"
#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// The host memory of a mode that offloads, taken once for each recorded step.
class OffloadPool {
 public:
  /// `limit_bytes`: no more is taken; empty: as much as the recorded step needs.
  explicit OffloadPool(std::optional<int64_t> limit_bytes = {}) : limit_bytes_(limit_bytes) {}

  /// A codec with room for `bytes`, as far as the limit and the host allow, on the device of the
  /// model; null when the model has no tensors, and so nothing to train.
  [[nodiscard]] std::shared_ptr<const HostOffload> of(const StepGraph& graph, int64_t bytes);

  /// Empty before the first memory was taken.
  [[nodiscard]] std::optional<HostOffloadUsage> usage() const;
  /// The storages of the recorded step that found no room since the last call.
  [[nodiscard]] std::set<StorageId> take_refused() const;
  /// Gives the memory back, once nobody holds an encoding in it.
  void reset() { pool_.reset(); }

 private:
  std::optional<int64_t> limit_bytes_;
  std::shared_ptr<const HostOffload> pool_;
  c10::Device device_ = c10::Device(c10::kCPU);
  int64_t capacity_bytes_ = 0;
};

}  // namespace noisemark::memopt
