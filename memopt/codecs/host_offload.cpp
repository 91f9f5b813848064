#include "memopt/codecs/host_offload.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/codecs/encoding.h"
#include "memopt/codecs/pinned_memory.h"
#include "memopt/device/repeated_work.h"

namespace noisemark::memopt::codecs {
namespace {

/// Host offload where the device is the host.
class HostCopy final : public HostOffload {
 public:
  explicit HostCopy(int64_t capacity_bytes);
  [[nodiscard]] std::string_view name() const override { return "copy"; }
  [[nodiscard]] std::optional<Encoded> encode(const at::Tensor& x,
                                              const EncodeKey& key) const override;
  [[nodiscard]] at::Tensor decode(const Encoded& encoded) const override;
  [[nodiscard]] HostOffloadUsage usage() const override;
  void finish_encoding() const override {}

 private:
  struct Account;
  std::shared_ptr<Account> account_;
};

struct HostCopy::Account {
  std::mutex mutex;
  HostOffloadUsage usage;
};

HostCopy::HostCopy(int64_t capacity_bytes) : account_(std::make_shared<Account>()) {
  account_->usage.capacity_bytes = capacity_bytes;
}

std::optional<Encoded> HostCopy::encode(const at::Tensor& x, const EncodeKey& key) const {
  if (!x.is_cpu() || !is_dense(x)) return std::nullopt;
  require_host("tensors go to the host's memory, whose pool the host keeps");
  const auto bytes = static_cast<int64_t>(x.nbytes());
  {
    const std::lock_guard<std::mutex> lock(account_->mutex);
    HostOffloadUsage& usage = account_->usage;
    if (usage.held_bytes + bytes > usage.capacity_bytes) {
      ++usage.fallbacks;
      note_refused(key);
      return std::nullopt;
    }
    usage.held_bytes += bytes;
  }
  Encoded encoded = described(x);
  encoded.state = std::shared_ptr<void>(nullptr, [account = account_, bytes](void*) {
    const std::lock_guard<std::mutex> lock(account->mutex);
    account->usage.held_bytes -= bytes;
  });
  encoded.parts = new_parts(x, parts_of(x.numel(), x.scalar_type()));
  std::memcpy(encoded.parts[0].mutable_data_ptr(), x.const_data_ptr(), x.nbytes());
  return encoded;
}

at::Tensor HostCopy::decode(const Encoded& encoded) const {
  at::Tensor x = new_decoded(encoded);
  std::memcpy(x.mutable_data_ptr(), encoded.parts.at(0).const_data_ptr(), x.nbytes());
  return x;
}

HostOffloadUsage HostCopy::usage() const {
  const std::lock_guard<std::mutex> lock(account_->mutex);
  return account_->usage;
}

/// Host offload of a device with streams and events, through LibTorch's interface to them, so that
/// this needs no header of such a device.
class PinnedOffload final : public HostOffload {
 public:
  PinnedOffload(c10::Device device, int64_t capacity_bytes);
  ~PinnedOffload() override;
  [[nodiscard]] std::string_view name() const override { return "offload"; }
  [[nodiscard]] std::optional<Encoded> encode(const at::Tensor& x,
                                              const EncodeKey& key) const override;
  [[nodiscard]] std::vector<PartSize> parts_of(int64_t /*elements*/,
                                               at::ScalarType /*type*/) const override {
    return {};
  }
  void prefetch(const Encoded& encoded) const override;
  [[nodiscard]] at::Tensor decode(const Encoded& encoded) const override;
  [[nodiscard]] HostOffloadUsage usage() const override;
  void finish_encoding() const override;

 private:
  /// A tensor on its way out; its memory must stay.
  struct Leaving {
    c10::Storage storage;
    std::unique_ptr<PooledEvent> copied;
  };
  struct Returning;

  /// Work that is issued to `after` from now on waits for what was issued to `before`.
  void order(const c10::Stream& before, const c10::Stream& after) const;
  /// The compute stream waits for the oldest until at most `most` are under way.
  void let_go(size_t most, const c10::Stream& compute) const;
  void begin_return(const Encoded& encoded, Returning& returning) const;

  c10::Device device_;
  c10::Stream side_;
  mutable SlabPool pool_;
  std::shared_ptr<EventPool> events_;  ///< encodings use it too, and may outlive this
  mutable std::mutex mutex_;
  mutable std::deque<Leaving> leaving_;
};

/// Copies out that may be under way at once.
constexpr size_t kWindow = 2;

c10::Device with_index(c10::Device device) {
  return device.has_index() ? device : c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// All elements of a dense tensor in memory order.
at::Tensor flat(const at::Tensor& x) {
  return at::as_strided(x.detach(), {x.numel()}, {1}, x.storage_offset());
}

/// The host's memory as a tensor that `flat` can be copied from or to.
at::Tensor host_view(const at::Tensor& part, at::ScalarType type) {
  return part.view(type);
}

/// One encoding's copy on the device, from prefetch() to decode(). A second decode() makes another.
struct PinnedOffload::Returning {
  std::mutex mutex;
  at::Tensor tensor;  ///< is undefined when no copy is under way
  c10::Stream compute;
  std::shared_ptr<EventPool> events;
  std::unique_ptr<PooledEvent> arrived;  ///< event behind the copy under way, or null

  Returning(c10::Device device, std::shared_ptr<EventPool> pool)
      : compute(current_stream(device)), events(std::move(pool)) {}
  ~Returning() {
    if (!tensor.defined()) return;
    // It was prefetched and never asked for: its memory goes back to `compute`, behind the copy.
    try {
      arrived->get().block(compute);
    } catch (const c10::Error& error) {
      TORCH_WARN("offload: ", error.what_without_backtrace());
    }
  }
};

PinnedOffload::PinnedOffload(c10::Device device, int64_t capacity_bytes)
    : device_(with_index(device)),
      side_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device_)),
      pool_(capacity_bytes, pinned_memory),
      events_(std::make_shared<EventPool>(device_.type())) {}

PinnedOffload::~PinnedOffload() {
  // Tensors that are being copied out go back to the compute stream, perhaps at once.
  try {
    side_.synchronize();
  } catch (const c10::Error& error) {
    TORCH_WARN("offload: ", error.what_without_backtrace());
  }
}

std::optional<Encoded> PinnedOffload::encode(const at::Tensor& x, const EncodeKey& key) const {
  if (x.device() != device_ || !is_dense(x)) return std::nullopt;
  require_host("tensors go to the host's memory, whose pool the host keeps");
  SlabPool::Memory memory = pool_.take(static_cast<int64_t>(x.nbytes()));
  if (memory == nullptr) {
    note_refused(key);
    return std::nullopt;
  }
  const c10::NoGradGuard no_grad;
  const c10::DeviceGuard guard(device_);
  // It is asked for before the side stream becomes the current one.
  const c10::Stream compute = current_stream(device_);
  Encoded encoded = described(x);
  encoded.parts.push_back(at::from_blob(
      memory.get(), {static_cast<int64_t>(x.nbytes())}, [memory](void*) {},
      at::TensorOptions().dtype(at::kByte)));
  encoded.state = std::make_shared<Returning>(device_, events_);

  const std::lock_guard<std::mutex> lock(mutex_);
  let_go(kWindow - 1, compute);
  order(compute, side_);
  {
    const c10::StreamGuard on_side(side_);
    host_view(encoded.parts[0], x.scalar_type()).copy_(flat(x), /*non_blocking=*/true);
  }
  leaving_.push_back({x.storage(), std::make_unique<PooledEvent>(*events_)});
  leaving_.back().copied->get().record(side_);
  return encoded;
}

void PinnedOffload::prefetch(const Encoded& encoded) const {
  auto& returning = *static_cast<Returning*>(encoded.state.get());
  const std::lock_guard<std::mutex> lock(returning.mutex);
  if (!returning.tensor.defined()) begin_return(encoded, returning);
}

at::Tensor PinnedOffload::decode(const Encoded& encoded) const {
  auto& returning = *static_cast<Returning*>(encoded.state.get());
  const std::lock_guard<std::mutex> lock(returning.mutex);
  if (!returning.tensor.defined()) begin_return(encoded, returning);
  const c10::DeviceGuard guard(device_);
  const c10::Stream compute = current_stream(device_);
  returning.arrived->get().block(compute);
  returning.arrived.reset();
  if (compute != returning.compute) returning.tensor.record_stream(compute);
  return std::move(returning.tensor);
}

void PinnedOffload::begin_return(const Encoded& encoded, Returning& returning) const {
  finish_encoding();
  const c10::NoGradGuard no_grad;
  const c10::DeviceGuard guard(device_);
  const c10::Stream compute = current_stream(device_);
  at::Tensor tensor;
  {
    const OwnerScope owner(Owner::kRematerialized);
    tensor = at::empty_strided(encoded.sizes, encoded.strides,
                               at::TensorOptions().dtype(encoded.dtype).device(device_));
  }
  // The memory may have been another tensor's, in work that is issued but not done.
  order(compute, side_);
  {
    const c10::StreamGuard on_side(side_);
    flat(tensor).copy_(host_view(encoded.parts.at(0), encoded.dtype), /*non_blocking=*/true);
  }
  returning.arrived = std::make_unique<PooledEvent>(*events_);
  returning.arrived->get().record(side_);
  returning.compute = compute;
  returning.tensor = std::move(tensor);
}

void PinnedOffload::finish_encoding() const {
  const c10::DeviceGuard guard(device_);
  const std::lock_guard<std::mutex> lock(mutex_);
  let_go(0, current_stream(device_));
}

void PinnedOffload::order(const c10::Stream& before, const c10::Stream& after) const {
  PooledEvent event(*events_);
  event.get().record(before);
  event.get().block(after);
}

void PinnedOffload::let_go(size_t most, const c10::Stream& compute) const {
  while (leaving_.size() > most) {
    leaving_.front().copied->get().block(compute);
    leaving_.pop_front();
  }
}

HostOffloadUsage PinnedOffload::usage() const {
  const SlabPool::Usage usage = pool_.usage();
  return {usage.capacity_bytes, usage.lent_bytes, usage.refusals};
}

}  // namespace
}  // namespace noisemark::memopt::codecs

namespace noisemark::memopt {

std::string HostOffload::form() const {
  return std::string(name()) + ", room " + std::to_string(usage().capacity_bytes);
}

std::set<int64_t> HostOffload::take_refused() const {
  const std::lock_guard<std::mutex> lock(refused_mutex_);
  return std::exchange(refused_, {});
}

void HostOffload::note_refused(const EncodeKey& key) const {
  if (key.storage == EncodeKey::kNoStorage) return;
  const std::lock_guard<std::mutex> lock(refused_mutex_);
  refused_.insert(key.storage);
}

std::unique_ptr<HostOffload> make_host_offload(c10::Device device, int64_t capacity_bytes) {
  if (device.is_cpu()) return std::make_unique<codecs::HostCopy>(capacity_bytes);
  return std::make_unique<codecs::PinnedOffload>(device, capacity_bytes);
}

}  // namespace noisemark::memopt
