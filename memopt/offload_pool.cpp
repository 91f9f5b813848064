#include "memopt/offload_pool.h"

#include <algorithm>

namespace noisemark::memopt {
namespace {

/// The pool lends pieces of a few slabs, so some of it is lost between them.
constexpr int64_t kSlackShare = 8;
constexpr int64_t kLeastSlack = 1 << 20;

}  // namespace

std::shared_ptr<const HostOffload> OffloadPool::of(const StepGraph& graph, int64_t bytes) {
  const auto of_model = std::find_if(
      graph.values.begin(), graph.values.end(),
      [](const RecordedValue& value) { return value.origin == RecordedValue::Origin::kModel; });
  if (of_model == graph.values.end()) return nullptr;
  const c10::Device device = of_model->model_tensor.device();
  const int64_t capacity = bytes + std::max(bytes / kSlackShare, kLeastSlack);
  if (pool_ == nullptr || device_ != device || capacity_bytes_ != capacity) {
    pool_ = make_host_offload(device, capacity);
    device_ = device;
    capacity_bytes_ = capacity;
  }
  return pool_;
}

}  // namespace noisemark::memopt
