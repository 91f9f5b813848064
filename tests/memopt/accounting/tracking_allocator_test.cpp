#include "memopt/accounting/tracking_allocator.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/memopt/nets.h"

namespace noisemark::memopt {
namespace {

int64_t live() {
  return cpu_allocation_source().live_bytes();
}

const c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.storage().unsafeGetStorageImpl();
}

/// The number of a block that is born now.
uint64_t next_number() {
  return cpu_allocation_source().find(storage_of(at::empty({1})))->number;
}

TEST(TrackingAllocator, counts_requested_bytes_and_returns_to_zero) {
  const int64_t before = live();
  at::Tensor a = at::empty({1000}, at::kFloat);
  EXPECT_EQ(live() - before, 4000);
  at::Tensor b = at::empty({7}, at::kByte);
  EXPECT_EQ(live() - before, 4007);
  a.reset();
  EXPECT_EQ(live() - before, 7);
  b.reset();
  EXPECT_EQ(live() - before, 0);
}

TEST(TrackingAllocator, keeps_the_alignment_of_libtorch) {
  for (const int64_t bytes : {1, 63, 64, 65, 4096, 5'000'000}) {
    const at::Tensor t = at::empty({bytes}, at::kByte);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data_ptr()) % 64, 0) << bytes;
  }
}

TEST(TrackingAllocator, honours_the_contract_of_raw_allocate) {
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  const int64_t before = live();
  void* data = allocator.raw_allocate(128);
  EXPECT_EQ(live() - before, 128);
  allocator.raw_deallocate(data);
  EXPECT_EQ(live() - before, 0);
  const c10::DataPtr held = allocator.allocate(32);
  EXPECT_EQ(held.get(), held.get_context());
  EXPECT_EQ(held.get_deleter(), allocator.raw_deleter());
  EXPECT_TRUE(allocator.is_simple_data_ptr(held));
}

TEST(TrackingAllocator, gives_no_memory_for_no_bytes) {
  const uint64_t before = next_number();
  const at::Tensor empty = at::empty({0});
  EXPECT_EQ(empty.data_ptr(), nullptr);
  EXPECT_FALSE(cpu_allocation_source().find(storage_of(empty)).has_value());
  EXPECT_EQ(next_number(), before + 1);
}

TEST(TrackingAllocator, sees_frees_on_other_threads) {
  const int64_t before = live();
  at::Tensor from_thread;
  std::thread([&] { from_thread = at::ones({100}); }).join();
  EXPECT_EQ(live() - before, 400);
  std::thread([gone = std::move(from_thread)]() mutable { gone.reset(); }).join();
  EXPECT_EQ(live() - before, 0);
}

TEST(TrackingAllocator, is_exact_when_many_threads_work_at_once) {
  const int64_t before = live();
  const uint64_t first = next_number();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int k = 1; k <= 500; ++k) at::empty({k}, at::kByte);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(live(), before);
  EXPECT_EQ(next_number() - first, 8 * 500 + 1);
}

TEST(TrackingAllocator, sees_memory_made_in_parallel_for) {
  const int threads_before = at::get_num_threads();
  at::set_num_threads(2);
  const int64_t before = live();
  std::array<at::Tensor, 8> made;
  at::parallel_for(0, 8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) made[i] = at::empty({100 * (i + 1)}, at::kByte);
  });
  EXPECT_EQ(live() - before, 3600);
  made = {};
  EXPECT_EQ(live() - before, 0);
  at::set_num_threads(threads_before);
}

TEST(TrackingAllocator, numbers_a_storage_anew_when_it_is_resized) {
  at::Tensor t = at::empty({10}, at::kByte);
  const int64_t before = live();
  const Block small = cpu_allocation_source().find(storage_of(t)).value();
  t.resize_({1000});
  const Block large = cpu_allocation_source().find(storage_of(t)).value();
  EXPECT_EQ(live() - before, 990);
  EXPECT_EQ(large.bytes, 1000);
  EXPECT_GT(large.number, small.number);
}

TEST(TrackingAllocator, never_uses_a_number_twice) {
  const auto number = [] {
    return cpu_allocation_source().find(storage_of(at::empty({64})))->number;
  };
  const uint64_t first = number();
  EXPECT_GT(number(), first);  // the address is very likely the same
}

TEST(TrackingAllocator, leaves_foreign_memory_alone) {
  std::array<float, 4> mine{};
  const int64_t before = live();
  const at::Tensor t = at::from_blob(mine.data(), {4});
  EXPECT_FALSE(cpu_allocation_source().find(storage_of(t)).has_value());
  EXPECT_EQ(live(), before);
}

TEST(TrackingAllocator, shares_a_block_between_views) {
  const at::Tensor t = at::empty({8, 8});
  const at::Tensor view = t.narrow(0, 2, 3).transpose(0, 1);
  EXPECT_EQ(cpu_allocation_source().find(storage_of(view))->number,
            cpu_allocation_source().find(storage_of(t))->number);
}

TEST(TrackingAllocator, keeps_the_highest_level) {
  HighMark high(cpu_allocation_source());
  const int64_t before = live();
  { const at::Tensor t = at::empty({1 << 20}, at::kByte); }
  EXPECT_EQ(high.take() - before, 1 << 20);
  EXPECT_EQ(high.take(), live());
}

TEST(TrackingAllocator, tells_the_highest_level_since_it_was_last_asked) {
  AllocationSource& source = cpu_allocation_source();
  static_cast<void>(source.take_high_bytes());
  const int64_t before = live();
  { const at::Tensor t = at::empty({1 << 20}, at::kByte); }
  const at::Tensor kept = at::empty({1000}, at::kByte);
  EXPECT_EQ(source.take_high_bytes() - before, 1 << 20);
  EXPECT_EQ(source.take_high_bytes(), live());
}

TEST(TrackingAllocator, returns_exactly_to_its_level_after_training_steps) {
  test::SmallNet net;
  const at::Tensor x = at::randn({2, 3, 8, 8});
  net.train_step(x, x);
  const int64_t before = live();
  for (int i = 0; i < 3; ++i) net.train_step(x, x);
  EXPECT_EQ(live(), before);
}

TEST(TrackingAllocator, throws_libtorchs_error_when_memory_runs_out) {
  const int64_t before = live();
  EXPECT_THROW(at::empty({int64_t{1} << 60}, at::kByte), c10::Error);
  EXPECT_THROW(c10::GetCPUAllocator()->allocate(~size_t{0} - 8), c10::Error);
  EXPECT_EQ(live(), before);
}

/// Limits the process until the end of the scope.
class LimitScope {
 public:
  explicit LimitScope(int64_t bytes) { install_tracking_allocator(bytes); }
  ~LimitScope() { install_tracking_allocator(); }
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;
};

TEST(TrackingAllocator, refuses_what_goes_beyond_its_limit_and_no_byte_less) {
  const int64_t before = live();
  const LimitScope limit(before + 1000);
  const at::Tensor held = at::empty({600}, at::kByte);
  EXPECT_NO_THROW((void)at::empty({400}, at::kByte));
  EXPECT_THROW((void)at::empty({401}, at::kByte), c10::Error);
  EXPECT_EQ(live(), before + 600) << "what was refused is not counted";
  install_tracking_allocator(before);
  EXPECT_THROW((void)at::empty({1}, at::kByte), c10::Error) << "more is live than it allows";
}

TEST(TrackingAllocator, has_no_limit_unless_it_is_given_one) {
  {
    const LimitScope limit(live());
    EXPECT_THROW((void)at::empty({1}, at::kByte), c10::Error);
  }
  EXPECT_NO_THROW((void)at::empty({int64_t{1} << 24}, at::kByte));
}

TEST(TrackingAllocator, refuses_a_block_it_does_not_own) {
  alignas(64) std::array<char, 256> mine{};
  EXPECT_THROW(c10::GetCPUAllocator()->raw_deallocate(mine.data() + 128), c10::Error);
}

TEST(TrackingAllocator, installs_once) {
  c10::Allocator* before = c10::GetCPUAllocator();
  install_tracking_allocator();
  EXPECT_EQ(c10::GetCPUAllocator(), before);
}

TEST(OwnerScope, tags_this_threads_blocks_and_nests) {
  const auto born_as = [] {
    return cpu_allocation_source().find(storage_of(at::empty({4})))->born_as;
  };
  EXPECT_EQ(born_as(), Owner::kUnattributed);
  const OwnerScope input(Owner::kInput);
  EXPECT_EQ(born_as(), Owner::kInput);
  EXPECT_EQ(current_birth_owner(), Owner::kInput);
  {
    const OwnerScope encoded(Owner::kEncoded);
    EXPECT_EQ(born_as(), Owner::kEncoded);
    std::thread([&] { EXPECT_EQ(born_as(), Owner::kUnattributed); }).join();
  }
  EXPECT_EQ(born_as(), Owner::kInput);
}

class CountingListener final : public AllocationListener {
 public:
  void on_allocate(const Block& block) noexcept override { bytes += block.bytes; }
  void on_release(const Block& block) noexcept override { bytes -= block.bytes; }
  std::atomic<int64_t> bytes{0};
};

TEST(AllocationSource, gives_a_baseline_that_is_exact_while_other_threads_work) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      std::vector<at::Tensor> held(16);
      for (int k = 0; !stop; ++k) {
        std::optional<OwnerScope> scope;
        if (i == 0) scope.emplace(Owner::kInput);
        held[static_cast<size_t>(k) % held.size()] = at::empty({k % 977 + 1}, at::kByte);
      }
    });
  }
  AllocationSource& source = cpu_allocation_source();
  std::vector<CountingListener> listeners(50);
  std::vector<AllocationBaseline> baselines;
  for (CountingListener& listener : listeners) {
    baselines.push_back(source.attach(listener));
    std::this_thread::yield();
    if (&listener != &listeners.back()) source.detach();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(baselines.back().live_bytes + listeners.back().bytes, live());
  source.detach();
}

TEST(AllocationSource, splits_the_baseline_by_birth) {
  std::optional<OwnerScope> scope(std::in_place, Owner::kInput);
  const at::Tensor input = at::empty({100}, at::kByte);
  scope.reset();
  CountingListener listener;
  const AllocationBaseline baseline = cpu_allocation_source().attach(listener);
  EXPECT_EQ(baseline.born_bytes[static_cast<size_t>(Owner::kInput)], 100);
  EXPECT_EQ(baseline.live_bytes, live());
  EXPECT_THROW(cpu_allocation_source().attach(listener), c10::Error);
  cpu_allocation_source().detach();
}

}  // namespace
}  // namespace noisemark::memopt
