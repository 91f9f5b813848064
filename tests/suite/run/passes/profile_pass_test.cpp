#include "suite/run/passes/profile_pass.h"

#include <gtest/gtest.h>

#include "suite/data/dataset.h"
#include "suite/environment/pm_sampling.h"
#include "suite/run/passes/watch.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

TEST(DevicePass, fills_its_window_with_steps_and_makes_a_few_of_long_ones) {
  EXPECT_EQ(steps_of_window(0.5), 10);
  EXPECT_EQ(steps_of_window(0.3), 17) << "no shorter than the window";
  EXPECT_EQ(steps_of_window(60), 3);
  EXPECT_EQ(steps_of_window(1e-9), 100'000);
  EXPECT_EQ(steps_of_window(0), 3);
}

// The pass trains on a CPU too, where nothing of it can be read.
TEST(DevicePass, trains_while_it_reads_and_gives_a_reason_for_what_it_cannot_have) {
  SessionOptions options;
  options.spec.definition = test::tiny_definition();
  options.spec.precision = parse_precision("fp32", at::kCPU);
  options.dataset = open_dataset(options.spec.definition, "");
  Progress line("test", 3, 4);
  const InterruptGuard interrupt;
  const DeviceReadings readings = device_pass(options, {line, interrupt}, 0.02);
  EXPECT_GE(readings.steps, 3);
  EXPECT_GT(readings.window.window_s, 0);
  EXPECT_EQ(readings.window.sampled.size(), sampled_metrics().size());
  WindowWork work;
  work.steps = readings.steps;
  work.busy_missing = "nothing was profiled";
  const auto use = device_use(readings.window, work);
  for (const auto& column : use.columns) {
    EXPECT_EQ(column.value.has_value(), column.missing_reason.empty()) << column.name;
    EXPECT_NE(column.source, "") << column.name;
  }
}

}  // namespace

}  // namespace noisemark::suite
