#include "suite/selftest/altered_sides.h"

#include <gtest/gtest.h>

#include "reports/gate.h"
#include "reports/json_io.h"
#include "suite/selftest/recorded_rounds.h"

namespace noisemark::suite {
namespace {

double metric(const reports::Result& result, const std::string& name) {
  return reports::find_metric(result, name)->value.value();
}

TEST(AlteredSides, slowed_by_nothing_are_the_recorded_ones) {
  const reports::Side side = recorded_rounds().candidate;
  const reports::Side same = slowed(side, 0);
  ASSERT_EQ(same.runs.size(), side.runs.size());
  for (size_t i = 0; i < side.runs.size(); ++i) {
    EXPECT_EQ(reports::to_json(same.runs[i].result), reports::to_json(side.runs[i].result));
  }
}

TEST(AlteredSides, slowed_take_that_much_longer_in_every_phase_and_are_otherwise_the_same) {
  const reports::Result before = recorded_rounds().candidate.runs.front().result;
  const reports::Result after = slowed(recorded_rounds().candidate, 0.05).runs.front().result;
  for (size_t i = 0; i < before.samples.step_s.size(); ++i) {
    EXPECT_DOUBLE_EQ(after.samples.step_s[i], 1.05 * before.samples.step_s[i]);
    EXPECT_DOUBLE_EQ(after.samples.forward_s[i], 1.05 * before.samples.forward_s[i]);
  }
  EXPECT_DOUBLE_EQ(metric(after, "images_per_s"), metric(before, "images_per_s") / 1.05);
  EXPECT_DOUBLE_EQ(metric(after, "backward_s"), metric(before, "backward_s") * 1.05);
  EXPECT_EQ(metric(after, "val_loss"), metric(before, "val_loss"));
  EXPECT_EQ(after.samples.loss, before.samples.loss);
}

}  // namespace
}  // namespace noisemark::suite
