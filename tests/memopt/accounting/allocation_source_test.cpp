#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "memopt/accounting/allocation_source.h"
#include "memopt/accounting/tracking_allocator.h"

namespace noisemark::memopt {
namespace {

constexpr int64_t kAllocated = 1 << 20;

void allocate_and_release() {
  const at::Tensor tensor = at::empty({kAllocated}, at::kByte);
}

TEST(HighMark, is_the_most_since_it_was_last_asked) {
  HighMark mark(cpu_allocation_source());
  const int64_t live = mark.live_bytes();
  allocate_and_release();
  EXPECT_EQ(mark.take(), live + kAllocated);
  EXPECT_EQ(mark.take(), live);
}

TEST(HighMark, of_one_reader_is_not_taken_away_by_another) {
  HighMark a(cpu_allocation_source());
  HighMark b(cpu_allocation_source());
  const int64_t live = a.live_bytes();
  allocate_and_release();
  EXPECT_EQ(a.take(), live + kAllocated);
  EXPECT_EQ(a.take(), live);
  EXPECT_EQ(b.take(), live + kAllocated) << "it has not been told";
  EXPECT_EQ(b.take(), live);
}

TEST(HighMark, knows_nothing_of_what_was_before_it) {
  HighMark before(cpu_allocation_source());
  allocate_and_release();
  HighMark mark(cpu_allocation_source());
  const int64_t live = mark.live_bytes();
  EXPECT_EQ(mark.take(), live);
  EXPECT_EQ(before.take(), live + kAllocated) << "nor takes it away";
}

TEST(HighMark, holds_while_another_thread_asks_all_the_time) {
  HighMark mark(cpu_allocation_source());
  std::atomic<bool> stop{false};
  std::atomic<int64_t> asked{0};
  std::thread other([&] {
    HighMark busy(cpu_allocation_source());
    while (!stop) {
      static_cast<void>(busy.take());
      ++asked;
    }
  });
  while (asked == 0) std::this_thread::yield();
  const int64_t live = mark.live_bytes();
  for (int i = 0; i < 100; ++i) {
    allocate_and_release();
    EXPECT_EQ(mark.take(), live + kAllocated) << i;
  }
  stop = true;
  other.join();
}

}  // namespace
}  // namespace noisemark::memopt
