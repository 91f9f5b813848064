#include "memopt/plan/peak_timeline.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "memopt/modes/planned_mode.h"
#include "memopt/plan/codec_figures.h"
#include "memopt/plan/resolve.h"
#include "tests/memopt/measured_step.h"
#include "tests/memopt/plan/recorded_nets.h"

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

/// Expects the plan that makes tanh again to need as much between the last two tensors that forward
/// saves as keeping everything does: the highest moment there comes before the program lets go of
/// tanh's result, which both hold until then.
void expect_the_peak_of_keeping(const std::function<at::Tensor(at::Tensor&)>& let_go_of) {
  const at::Tensor x = at::randn({2, 4, 8, 8}, at::kDouble);
  const at::Tensor weight = at::randn({8, 8}, at::kDouble).set_requires_grad(true);
  const auto graph = test::record({{{"weight", weight}}, {}, 1}, [&] {
    at::Tensor tanh = (x * weight).tanh();
    return let_go_of(tanh).square().mean();
  });
  Policy policy;
  policy.may_replay = [](const StepGraph&, const RecordedOperator& op) {
    return op.name == "aten::tanh" || op.name == "aten::mul";
  };
  const PeakTimeline timeline = simulate(resolve(graph, policy), test::no_codecs());
  const size_t last = graph->slots.size() - 1;
  ASSERT_LT(timeline.saved_bytes, kept_timeline(graph).saved_bytes);
  EXPECT_EQ(live_bytes(timeline, other_bytes(graph), last), graph->slots[last].at_save.high_bytes);
}

TEST(PeakBetweenSaves, counts_a_result_when_what_its_operator_reads_was_saved) {
  expect_the_peak_of_keeping([](at::Tensor& tanh) {
    at::Tensor twice = tanh * 2;
    tanh = at::Tensor();
    return twice;
  });
}

TEST(PeakBetweenSaves, counts_what_an_operator_needs_while_it_runs) {
  const at::Tensor filter = at::randn({1, 4, 3, 3}, at::kDouble);
  expect_the_peak_of_keeping([&](at::Tensor& tanh) {
    const at::Tensor small = at::conv2d(tanh, filter, {}, 1, 1);
    tanh = at::Tensor();
    return at::cat(std::vector<at::Tensor>(16, small));
  });
}

}  // namespace
}  // namespace noisemark::memopt
