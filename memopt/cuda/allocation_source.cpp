#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StorageImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "memopt/accounting/allocation_source.h"
#include "memopt/accounting/tracking_allocator.h"
#include "memopt/cuda/device_parts.h"

namespace noisemark::memopt {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;

/// LibTorch's own limit.
constexpr size_t kMaxDevices = 64;

class CudaAllocationSource final : public AllocationSource {
 public:
  explicit CudaAllocationSource(c10::DeviceIndex device) : device_(device) {
    // The caching allocator has no devices before that, and gives the tracker to none of them
    // without a word.
    at::globalContext().lazyInitDevice(c10::kCUDA);
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
        [this](const TraceEntry& entry) { on_trace(entry); });
    take_present_blocks();
  }

  std::string_view name() const override { return "trace of the CUDA caching allocator"; }

  AllocationBaseline attach(AllocationListener& listener) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(listener_ == nullptr, "CUDA allocations: a listener is attached already");
    listener_ = &listener;
    AllocationBaseline baseline;
    for (const auto& address_and_block : blocks_) {
      const Block& block = address_and_block.second;
      baseline.live_bytes += block.bytes;
      baseline.born_bytes[static_cast<size_t>(block.born_as)] += block.bytes;
    }
    // Without a tag is no tag: as in the CPU's source, only scopes count.
    baseline.born_bytes[static_cast<size_t>(Owner::kUnattributed)] = 0;
    return baseline;
  }

  void detach() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    listener_ = nullptr;
  }

  std::optional<Block> find(const c10::StorageImpl& storage) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<size_t>(storage.data()));
    if (found == blocks_.end()) return std::nullopt;
    return found->second;
  }

  int64_t live_bytes() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_bytes_;
  }

  int64_t take_high_bytes() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(high_bytes_, live_bytes_);
  }

 private:
  /// The allocator's lock is held: it calls neither CUDA nor LibTorch.
  void on_trace(const TraceEntry& entry) {
    if (entry.device_ != device_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (entry.action_ == TraceEntry::ALLOC) {
      const Block block =
          add(entry.addr_, static_cast<int64_t>(entry.size_), current_birth_owner());
      if (listener_ != nullptr) listener_->on_allocate(block);
    } else if (entry.action_ == TraceEntry::FREE_REQUESTED) {
      if (freed_meanwhile_.has_value()) freed_meanwhile_->insert(entry.addr_);
      const auto found = blocks_.find(entry.addr_);
      if (found == blocks_.end()) return;
      const Block block = found->second;
      blocks_.erase(found);
      live_bytes_ -= block.bytes;
      if (listener_ != nullptr) listener_->on_release(block);
    }
  }

  Block add(size_t address, int64_t bytes, Owner born_as) {
    const Block block{++last_number_, bytes, born_as};
    blocks_[address] = block;
    live_bytes_ += bytes;
    high_bytes_ = std::max(high_bytes_, live_bytes_);
    return block;
  }

  /// Blocks older than the tracker. What the snapshot has and the tracker has seen freed is either
  /// gone by now, or allocated again and known.
  void take_present_blocks() {
    const auto snapshot = c10::cuda::CUDACachingAllocator::snapshot({0, 0}, false);
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& segment : snapshot.segments) {
      if (segment.device != device_) continue;
      size_t address = segment.address;
      for (const auto& block : segment.blocks) {
        const bool known = blocks_.count(address) + freed_meanwhile_->count(address) > 0;
        if (block.allocated && !known) {
          add(address, static_cast<int64_t>(block.requested_size), Owner::kUnattributed);
        }
        address += block.size;
      }
    }
    freed_meanwhile_.reset();
  }

  const c10::DeviceIndex device_;
  mutable std::mutex mutex_;
  AllocationListener* listener_ = nullptr;
  std::unordered_map<size_t, Block> blocks_;  ///< live, by address
  /// Addresses, from the tracker's beginning until take_present_blocks() has ended.
  std::optional<std::unordered_set<size_t>> freed_meanwhile_{std::in_place};
  uint64_t last_number_ = 0;
  int64_t live_bytes_ = 0;
  int64_t high_bytes_ = 0;  ///< highest value from take_high_bytes() on
};

}  // namespace

AllocationSource& cuda_allocation_source(c10::Device device) {
  static std::mutex mutex;
  static std::array<CudaAllocationSource*, kMaxDevices> sources{};
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::cuda::current_device();
  const std::lock_guard<std::mutex> lock(mutex);
  CudaAllocationSource*& source = sources.at(static_cast<size_t>(index));
  // It is never destroyed: the allocator keeps calling it.
  if (source == nullptr) source = std::make_unique<CudaAllocationSource>(index).release();
  return *source;
}

namespace {

void add_workspaces(at::cuda::WorkspaceMapWithMutex& workspaces, c10::Device device,
                    std::vector<at::Tensor>& all) {
  const std::shared_lock<std::shared_mutex> lock(workspaces.mutex);
  for (const auto& handle_and_data : workspaces.map) {
    const at::DataPtr& data = handle_and_data.second;
    if (data.get() == nullptr || data.device() != device) continue;
    all.push_back(at::from_blob(data.get(), {1}, at::device(data.device()).dtype(at::kByte)));
  }
}

}  // namespace

std::vector<at::Tensor> cuda_library_workspaces(c10::Device device) {
  std::vector<at::Tensor> all;
  add_workspaces(at::cuda::cublas_handle_stream_to_workspace(), device, all);
  add_workspaces(at::cuda::cublaslt_handle_stream_to_workspace(), device, all);
  return all;
}

}  // namespace noisemark::memopt
