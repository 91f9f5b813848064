#include "suite/probes/short_count.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "memopt/tracking_allocator.h"

namespace noisemark::suite {
namespace {

int64_t bytes_of(const memopt::AllocationSource& source, const at::Tensor& tensor) {
  return source.find(*tensor.storage().unsafeGetStorageImpl()).value().bytes;
}

TEST(ShortCount, is_wrong_about_one_storage_alone) {
  const at::Tensor short_one = at::empty({100});
  const at::Tensor other = at::empty({100});
  memopt::AllocationSource& truth = memopt::cpu_allocation_source();
  const ShortCount source(truth, short_one, 1);
  EXPECT_EQ(bytes_of(source, short_one), 399);
  EXPECT_EQ(bytes_of(source, short_one.narrow(0, 10, 5)), 399);
  EXPECT_EQ(bytes_of(source, other), 400);
  EXPECT_EQ(source.live_bytes(), truth.live_bytes());
  EXPECT_EQ(source.name(), truth.name());
}

}  // namespace
}  // namespace noisemark::suite
