#include "memopt/plan/peak_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <numeric>
#include <string>

#include "memopt/modes/planned_mode.h"
#include "memopt/plan/codec_figures.h"
#include "tests/memopt/measured_step.h"

namespace noisemark::memopt {
namespace {

PeakTimeline predicted(const Mode& mode) {
  const auto plan = dynamic_cast<const PlannedMode&>(mode).plan();
  return simulate(*plan, measured_codec_figures(at::kCPU));
}

std::string test_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class TimelineOfMode : public testing::TestWithParam<const char*> {};

TEST_P(TimelineOfMode, tells_the_bytes_that_are_measured) {
  const std::unique_ptr<Mode> mode = make_mode(GetParam());
  test::MeasuredTraining training(*mode);
  training.warm_up();
  const test::StepMemory measured = training.measured_step();
  const PeakTimeline timeline = predicted(*mode);
  EXPECT_EQ(timeline.saved_bytes, measured.saved_bytes);
  EXPECT_LE(std::abs(timeline.peak_saved_bytes - measured.peak_saved_bytes),
            measured.peak_saved_bytes * 3 / 100)
      << timeline.peak_saved_bytes << " against " << measured.peak_saved_bytes;
}

TEST_P(TimelineOfMode, names_the_slot_of_every_byte_that_forward_leaves) {
  const std::unique_ptr<Mode> mode = make_mode(GetParam());
  test::MeasuredTraining training(*mode);
  training.warm_up();
  const PeakTimeline timeline = predicted(*mode);
  const std::vector<int64_t>& held = timeline.held_by_slot;
  EXPECT_EQ(std::accumulate(held.begin(), held.end(), int64_t{0}), timeline.saved_bytes);
}

TEST_P(TimelineOfMode, ends_with_nothing_held) {
  const std::unique_ptr<Mode> mode = make_mode(GetParam());
  test::MeasuredTraining training(*mode);
  training.warm_up();
  const PeakTimeline timeline = predicted(*mode);
  const TimelineEvent& end = timeline.events.back();
  EXPECT_EQ(end.slot, kNone);
  EXPECT_EQ(end.at.saved, 0);
  EXPECT_EQ(end.at.live, 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, TimelineOfMode,
                         testing::Values("echo", "echo+attn", "mirror", "mirror+echo", "dpr8",
                                         "echo+dpr8", "gist+dpr8"),
                         test_name);

class PeakOfMode : public testing::TestWithParam<const char*> {};

// The variables of the net's forward function hold tensors longer than the operators that read them
// do: what a plan has dropped or encoded lives on until they go.
TEST_P(PeakOfMode, is_predicted_within_one_percent) {
  const std::unique_ptr<Mode> mode = make_mode(GetParam());
  test::MeasuredTraining training(*mode);
  training.warm_up();
  const int64_t measured = training.measured_step().peak_bytes;
  const auto estimate = dynamic_cast<const PlannedMode&>(*mode).estimate();
  ASSERT_TRUE(estimate.has_value() && estimate->peak_bytes.has_value());
  EXPECT_LE(std::abs(*estimate->peak_bytes - measured), measured / 100)
      << *estimate->peak_bytes << " against " << measured;
}

INSTANTIATE_TEST_SUITE_P(Modes, PeakOfMode,
                         testing::Values("echo", "echo+attn", "mirror", "mirror:sqrt",
                                         "mirror+echo", "gist", "dpr16", "dpr10", "dpr8", "q4",
                                         "q2", "echo+dpr8", "echo+attn+q4", "mirror+echo+dpr16",
                                         "mirror+gist+q2", "offload", "offload:all",
                                         "offload:all,host=1MiB"),
                         test_name);

}  // namespace
}  // namespace noisemark::memopt
