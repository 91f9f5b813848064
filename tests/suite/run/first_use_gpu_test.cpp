#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include "memopt/accounting/allocation_source.h"
#include "suite/run/passes/memory_pass.h"
#include "suite/run/passes/watch.h"
#include "tests/gpu.h"
#include "tests/suite/train/tiny.h"

// Tests what `noisemark run` does to a GPU first. A program of its own: once anything has used the
// GPU, the test proves nothing.
namespace noisemark::suite {
namespace {

SessionOptions options() {
  SessionOptions options;
  options.spec.definition = test::tiny_definition();
  options.spec.definition.measure.memory_steps = 2;
  options.spec.device = kGpu;
  options.spec.precision = parse_precision("fp32", kGpu);
  options.dataset = open_dataset(options.spec.definition, "");
  return options;
}

TEST(GpuFirstUse, of_a_session_is_followed_to_the_last_weight) {
  const SessionOptions tiny = options();
  ASSERT_FALSE(c10::getDeviceAllocator(c10::kCUDA)->initialized()) << "something used it before";
  const Session session = make_session(tiny);
  const memopt::AllocationSource* source = memopt::find_allocation_source(kGpu);
  ASSERT_NE(source, nullptr);
  int64_t bytes = 0;
  for (const auto& [name, weight] : session.trainer->weights()) {
    EXPECT_TRUE(source->find(*weight.storage().unsafeGetStorageImpl())) << name;
    bytes += static_cast<int64_t>(weight.nbytes());
  }
  EXPECT_GE(source->live_bytes(), bytes);
  Progress line("test", tiny.spec.definition.measure.memory_steps,
                tiny.spec.definition.train.batch);
  const InterruptGuard interrupt;
  const reports::MemorySection section = memory_pass(tiny, {line, interrupt});
  ASSERT_TRUE(section.measured) << section.missing_reason;
  for (const auto& boundary : section.boundaries) {
    EXPECT_GE(boundary.by_category.at("weights"), bytes) << boundary.at;
  }
}

}  // namespace
}  // namespace noisemark::suite
