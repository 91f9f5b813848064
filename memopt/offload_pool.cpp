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
  const int64_t needed = bytes + std::max(bytes / kSlackShare, kLeastSlack);
  const int64_t capacity = std::min(needed, limit_bytes_.value_or(needed));
  if (pool_ == nullptr || device_ != device || capacity_bytes_ != capacity) {
    pool_ = make_host_offload(device, capacity);
    device_ = device;
    capacity_bytes_ = capacity;
  }
  return pool_;
}

std::optional<HostOffloadUsage> OffloadPool::usage() const {
  return pool_ == nullptr ? std::nullopt : std::optional(pool_->usage());
}

std::set<StorageId> OffloadPool::take_refused() const {
  if (pool_ == nullptr) return {};
  const std::set<int64_t> keys = pool_->take_refused();
  std::set<StorageId> storages;
  for (const int64_t key : keys) storages.insert(static_cast<StorageId>(key));
  return storages;
}

}  // namespace noisemark::memopt
