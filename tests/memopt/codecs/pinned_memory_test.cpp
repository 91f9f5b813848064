#include "memopt/codecs/pinned_memory.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace noisemark::memopt::codecs
