#include "memopt/codecs/event_pool.h"

#include <gtest/gtest.h>

namespace noisemark::memopt::codecs {
namespace {

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
