#include "memopt/accounting/tracking_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <new>
#include <thread>

namespace noisemark::memopt {
namespace {

constexpr uint64_t kLiveMagic = 0x4e6f6973654d6172;
constexpr uint64_t kFreedMagic = 0x66726565644d656d;
/// The priority is above that of LibTorch's static allocators (0), so that nothing replaces ours
/// afterwards.
constexpr uint8_t kPriority = 200;
/// The word of the live bytes also carries, above them, the number of the listener's session (0:
/// none). So the same atomic addition that counts a block tells which listener must hear of it, and
/// a baseline is exact without a lock.
constexpr int kSessionShift = 48;
constexpr int64_t kLiveMask = (int64_t{1} << kSessionShift) - 1;
constexpr int64_t kSessions = int64_t{1} << (62 - kSessionShift);

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// Stands in front of every block. Its size keeps the data on LibTorch's alignment.
struct alignas(64) BlockHeader {
  uint64_t magic;
  Block block;
};
static_assert(sizeof(BlockHeader) == 64);

thread_local Owner born_as = Owner::kUnattributed;

BlockHeader* header_of(void* data) {
  return reinterpret_cast<BlockHeader*>(static_cast<char*>(data) - sizeof(BlockHeader));
}

void release(void* data);

class TrackingAllocator final : public c10::Allocator, public AllocationSource {
 public:
  explicit TrackingAllocator(c10::Allocator& base) : base_(base) {}

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* dest, const void* src, size_t bytes) const override {
    default_copy_data(dest, src, bytes);
  }
  void deallocate(BlockHeader* header);

  std::string_view name() const override { return "wrapping CPU allocator"; }
  AllocationBaseline attach(AllocationListener& listener) override;
  void detach() override;
  std::optional<Block> find(const c10::StorageImpl& storage) const override;
  int64_t live_bytes() const override { return live_.load() & kLiveMask; }
  int64_t take_high_bytes() override {
    const int64_t live = live_bytes();
    return std::max(high_.exchange(live), live);
  }

  void set_limit(int64_t bytes) { limit_.store(bytes); }

 private:
  int64_t add_live(const Block& block, int64_t sign);
  void raise_high(int64_t live);
  template <typename Event>
  void notify(int64_t session, Event event);

  c10::Allocator& base_;
  alignas(64) std::atomic<int64_t> live_{0};
  std::atomic<int64_t> limit_{kNoLimit};
  std::atomic<int64_t> high_{0};  ///< highest value from take_high_bytes() on
  std::atomic<uint64_t> last_number_{0};
  alignas(64) std::atomic<AllocationListener*> listener_{nullptr};
  std::atomic<int64_t> session_{0};
  std::atomic<int> notifying_{0};
  std::mutex born_mutex_;  ///< only blocks with a tag take it
  std::array<int64_t, kOwnerCount> born_bytes_{};
};

/// LibTorch keeps a pointer to its allocator until the process ends; so do we.
std::atomic<TrackingAllocator*> installed{nullptr};

void release(void* data) {
  if (data == nullptr) return;
  BlockHeader* header = header_of(data);
  TORCH_CHECK(header->magic == kLiveMagic, "tracking allocator: released a block that ",
              header->magic == kFreedMagic ? "was released already" : "it does not own");
  installed.load(std::memory_order_relaxed)->deallocate(header);
}

c10::DataPtr TrackingAllocator::allocate(size_t bytes) {
  if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
  TORCH_CHECK(bytes <= size_t{std::numeric_limits<int64_t>::max()} - sizeof(BlockHeader),
              "tracking allocator: cannot allocate ", bytes, " bytes");
  // These are the words of LibTorch's allocator, by which a program tells that memory is used up.
  TORCH_CHECK(static_cast<int64_t>(bytes) <= limit_.load(std::memory_order_relaxed) - live_bytes(),
              "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", bytes,
              " bytes beside ", live_bytes(), ", and there is room for ", limit_.load());
  void* raw = base_.raw_allocate(bytes + sizeof(BlockHeader));
  const uint64_t number = last_number_.fetch_add(1, std::memory_order_relaxed) + 1;
  auto* header = new (raw) BlockHeader{kLiveMagic, {number, static_cast<int64_t>(bytes), born_as}};
  const int64_t live = add_live(header->block, +1);
  raise_high(live & kLiveMask);
  if (const int64_t session = live >> kSessionShift; session != 0) {
    notify(session, [&](AllocationListener& listener) { listener.on_allocate(header->block); });
  }
  void* data = header + 1;
  return {data, data, &release, c10::Device(c10::kCPU)};
}

void TrackingAllocator::deallocate(BlockHeader* header) {
  const int64_t live = add_live(header->block, -1);
  if (const int64_t session = live >> kSessionShift; session != 0) {
    notify(session, [&](AllocationListener& listener) { listener.on_release(header->block); });
  }
  header->magic = kFreedMagic;
  base_.raw_deallocate(header);
}

int64_t TrackingAllocator::add_live(const Block& block, int64_t sign) {
  const int64_t change = sign * block.bytes;
  if (block.born_as == Owner::kUnattributed) return live_.fetch_add(change) + change;
  const std::lock_guard lock(born_mutex_);
  born_bytes_[static_cast<size_t>(block.born_as)] += change;
  return live_.fetch_add(change) + change;
}

void TrackingAllocator::raise_high(int64_t live) {
  int64_t before = high_.load(std::memory_order_relaxed);
  while (live > before && !high_.compare_exchange_weak(before, live)) {
  }
}

template <typename Event>
void TrackingAllocator::notify(int64_t session, Event event) {
  notifying_.fetch_add(1);
  AllocationListener* listener = listener_.load();
  if (listener != nullptr && session == session_.load()) event(*listener);
  notifying_.fetch_sub(1);
}

AllocationBaseline TrackingAllocator::attach(AllocationListener& listener) {
  AllocationListener* none = nullptr;
  TORCH_CHECK(listener_.compare_exchange_strong(none, &listener),
              "tracking allocator: a listener is attached already");
  const int64_t session = session_.load() % (kSessions - 1) + 1;
  session_.store(session);
  const std::lock_guard lock(born_mutex_);
  AllocationBaseline baseline;
  std::copy(born_bytes_.begin(), born_bytes_.end(), baseline.born_bytes);
  baseline.live_bytes = live_.fetch_add(session << kSessionShift);
  return baseline;
}

void TrackingAllocator::detach() {
  TORCH_CHECK(listener_.load() != nullptr, "tracking allocator: no listener is attached");
  live_.fetch_sub(session_.load() << kSessionShift);
  listener_.store(nullptr);
  while (notifying_.load() != 0) std::this_thread::yield();
}

std::optional<Block> TrackingAllocator::find(const c10::StorageImpl& storage) const {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() != &release || data.get_context() == nullptr) return std::nullopt;
  return header_of(data.get_context())->block;
}

TrackingAllocator& installed_allocator() {
  TrackingAllocator* allocator = installed.load();
  TORCH_CHECK(allocator != nullptr, "call install_tracking_allocator() first");
  return *allocator;
}

}  // namespace

void install_tracking_allocator(std::optional<int64_t> limit_bytes) {
  static TrackingAllocator& allocator = *new TrackingAllocator(*c10::GetCPUAllocator());
  allocator.set_limit(limit_bytes.value_or(kNoLimit));
  if (installed.exchange(&allocator) == nullptr) c10::SetCPUAllocator(&allocator, kPriority);
}

int64_t header_bytes() {
  return installed.load() == nullptr ? 0 : static_cast<int64_t>(sizeof(BlockHeader));
}

AllocationSource& cpu_allocation_source() {
  return installed_allocator();
}

OwnerScope::OwnerScope(Owner owner) : previous_(born_as) {
  born_as = owner;
}

OwnerScope::~OwnerScope() {
  born_as = previous_;
}

Owner current_birth_owner() noexcept {
  return born_as;
}

}  // namespace noisemark::memopt
