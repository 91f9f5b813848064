#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "memopt/codecs/pinned_memory.h"

namespace noisemark::memopt {
namespace {

constexpr int64_t kMiB = 1 << 20;

SlabPool::Memory ordinary_memory(int64_t bytes) {
  return {new std::byte[static_cast<size_t>(bytes)], [](const std::byte* p) { delete[] p; }};
}

TEST(SlabPool, asks_for_powers_of_two_that_add_up) {
  std::vector<int64_t> asked;
  const SlabPool pool(13 * kMiB + 5, [&](int64_t bytes) {
    asked.push_back(bytes);
    return ordinary_memory(bytes);
  });
  EXPECT_EQ(asked, (std::vector<int64_t>{8 * kMiB, 4 * kMiB, kMiB}));
  EXPECT_EQ(pool.usage().capacity_bytes, 13 * kMiB);
}

TEST(SlabPool, makes_do_with_what_it_gets) {
  int64_t left = 5 * kMiB;
  const SlabPool pool(16 * kMiB, [&](int64_t bytes) {
    if (bytes > left) return SlabPool::Memory();
    left -= bytes;
    return ordinary_memory(bytes);
  });
  EXPECT_EQ(pool.usage().capacity_bytes, 5 * kMiB);
  SlabPool none(16 * kMiB, [](int64_t) { return SlabPool::Memory(); });
  EXPECT_EQ(none.usage().capacity_bytes, 0);
  EXPECT_EQ(none.take(1), nullptr);
  EXPECT_EQ(SlabPool(-1, ordinary_memory).usage().capacity_bytes, 0);
}

TEST(SlabPool, refuses_and_counts_when_it_is_full) {
  SlabPool pool(kMiB, ordinary_memory);
  const SlabPool::Memory half = pool.take(kMiB / 2);
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(pool.take(kMiB / 2 + 1), nullptr);
  EXPECT_EQ(pool.usage().refusals, 1);
  EXPECT_NE(pool.take(kMiB / 2), nullptr);
  EXPECT_EQ(pool.usage().refusals, 1);
}

TEST(SlabPool, lends_out_what_came_back) {
  SlabPool pool(kMiB, ordinary_memory);
  std::byte* first = nullptr;
  {
    const SlabPool::Memory piece = pool.take(kMiB);
    first = piece.get();
    EXPECT_EQ(pool.usage().lent_bytes, kMiB);
  }
  EXPECT_EQ(pool.usage().lent_bytes, 0);
  EXPECT_EQ(pool.take(kMiB).get(), first);
}

TEST(SlabPool, asks_the_host_for_nothing_once_it_is_made) {
  int asked = 0;
  SlabPool pool(4 * kMiB, [&](int64_t bytes) {
    ++asked;
    return ordinary_memory(bytes);
  });
  const int when_made = asked;
  for (int step = 0; step < 100; ++step) {
    std::vector<SlabPool::Memory> pieces;
    for (int64_t bytes = 1000; pieces.size() < 9; bytes *= 3) pieces.push_back(pool.take(bytes));
    EXPECT_EQ(pieces.back(), nullptr) << "there is no room for so much";
  }
  EXPECT_EQ(asked, when_made);
}

TEST(SlabPool, joins_neighbours_whatever_the_order_of_return) {
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    SlabPool pool(kMiB, ordinary_memory);
    std::vector<SlabPool::Memory> pieces;
    for (int i = 0; i < 4; ++i) pieces.push_back(pool.take(kMiB / 4));
    EXPECT_EQ(pool.take(1), nullptr);
    for (const size_t i : order) pieces[i].reset();
    EXPECT_NE(pool.take(kMiB), nullptr);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(SlabPool, takes_the_smallest_piece_that_is_large_enough) {
  SlabPool pool(kMiB, ordinary_memory);
  SlabPool::Memory large = pool.take(kMiB / 2);
  const SlabPool::Memory wall = pool.take(256);
  SlabPool::Memory small = pool.take(kMiB / 8);
  const SlabPool::Memory rest = pool.take(kMiB - kMiB / 2 - 256 - kMiB / 8);
  ASSERT_NE(rest, nullptr);
  std::byte* const small_place = small.get();
  large.reset();
  small.reset();
  EXPECT_EQ(pool.take(kMiB / 16).get(), small_place);
}

TEST(SlabPool, gives_pieces_that_do_not_overlap_and_are_aligned) {
  SlabPool pool(3 * kMiB, ordinary_memory);
  std::mt19937 random(1);
  struct Piece {
    SlabPool::Memory memory;
    int64_t bytes;
  };
  std::vector<Piece> pieces;
  for (int i = 0; i < 3000; ++i) {
    if (!pieces.empty() && random() % 2 == 0) {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      pieces.pop_back();
    }
    const auto bytes = static_cast<int64_t>(random() % 100'000);
    SlabPool::Memory memory = pool.take(bytes);
    if (memory == nullptr) continue;
    for (const Piece& other : pieces) {
      EXPECT_TRUE(memory.get() + bytes <= other.memory.get() ||
                  other.memory.get() + other.bytes <= memory.get());
    }
    pieces.push_back({std::move(memory), bytes});
  }
  EXPECT_GT(pool.usage().refusals, 0) << "else the pool was never full";
  pieces.clear();
  EXPECT_EQ(pool.usage().lent_bytes, 0);
  EXPECT_NE(pool.take(2 * kMiB), nullptr) << "all joined again";
}

TEST(SlabPool, may_end_before_its_pieces) {
  SlabPool::Memory piece;
  {
    SlabPool pool(kMiB, ordinary_memory);
    piece = pool.take(1000);
  }
  std::fill(piece.get(), piece.get() + 1000, std::byte{1});
  EXPECT_EQ(piece.get()[999], std::byte{1});
}

TEST(SlabPool, serves_threads_at_once) {
  SlabPool pool(4 * kMiB, ordinary_memory);
  const auto work = [&] {
    for (int i = 0; i < 2000; ++i) {
      const SlabPool::Memory piece = pool.take(10'000);
      ASSERT_NE(piece, nullptr);
      piece.get()[0] = std::byte{7};
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(pool.usage().lent_bytes, 0);
}

}  // namespace
}  // namespace noisemark::memopt

namespace noisemark::memopt::codecs {
namespace {

/// More than a host has, with a GPU or without one.
SlabPool::Memory too_much(int64_t bytes) {
  return pinned_memory(bytes << 40);
}

TEST(PinnedMemory, that_the_host_does_not_give_is_null_and_no_error) {
  EXPECT_EQ(too_much(SlabPool::kSmallestSlab), nullptr);
}

TEST(PinnedMemory, that_the_host_does_not_give_leaves_a_pool_that_refuses_and_counts) {
  SlabPool pool(8 * SlabPool::kSmallestSlab, too_much);
  EXPECT_EQ(pool.usage().capacity_bytes, 0);
  EXPECT_EQ(pool.take(1), nullptr);
  EXPECT_EQ(pool.usage().refusals, 1);
}

TEST(EventPool, makes_as_many_events_as_are_out_at_once_and_no_more) {
  EventPool pool(c10::DeviceType::CPU);
  for (int round = 0; round < 3; ++round) {
    const PooledEvent one(pool);
    const PooledEvent other(pool);
    EXPECT_EQ(pool.made(), 2);
  }
  const PooledEvent one(pool);
  const PooledEvent other(pool);
  const PooledEvent third(pool);
  EXPECT_EQ(pool.made(), 3);
}

TEST(EventPool, is_of_the_device_that_it_was_made_for) {
  EventPool pool(c10::DeviceType::CPU);
  PooledEvent event(pool);
  EXPECT_EQ(event.get().device_type(), c10::DeviceType::CPU);
}

}  // namespace
}  // namespace noisemark::memopt::codecs
