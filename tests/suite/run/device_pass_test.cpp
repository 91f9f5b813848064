#include "suite/run/device_pass.h"

#include <gtest/gtest.h>

#include "suite/data/dataset.h"
#include "suite/run/interrupt.h"
#include "suite/run/progress.h"
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

// On a CPU too, where nothing of it can be read.
TEST(DevicePass, trains_while_it_reads_and_gives_a_reason_for_what_it_cannot_have) {
  SessionOptions options;
  options.definition = test::tiny_definition();
  options.variant.precision = parse_precision("fp32", at::kCPU);
  options.dataset = open_dataset(options.definition, "");
  reports::Utilization counted;
  counted.forward_flop_per_image = 1000;
  counted.backward_flop_per_image = 2000;
  counted.gemm_peak_flop_per_s = 1e12;
  Progress line("test", 3, 4);
  const InterruptGuard interrupt;
  const auto use = device_pass(options, {line, interrupt}, counted, std::nullopt, 0.02);
  EXPECT_TRUE(use.measured);
  EXPECT_GE(use.steps, 3);
  EXPECT_EQ(use.images, use.steps * options.definition.train.batch);
  EXPECT_GT(use.window_s, 0);
  for (const auto& column : use.columns) {
    EXPECT_EQ(column.value.has_value(), column.missing_reason.empty()) << column.name;
    EXPECT_NE(column.source, "") << column.name;
    if (column.name == "kernel_busy") {
      EXPECT_FALSE(column.value);
    }
    if (column.name == "flop_of_peak") {
      // The same three figures in another order of multiplication.
      EXPECT_NEAR(column.value.value() * use.window_s,
                  3000.0 * static_cast<double>(use.images) / 1e12, 1e-15);
    }
  }
}

}  // namespace
}  // namespace noisemark::suite
