#include "memopt/plan/cuts.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "memopt/modes/planned_mode.h"
#include "memopt/plan/peak_timeline.h"
#include "tests/memopt/mode_run.h"
#include "tests/memopt/plan/recorded_nets.h"

namespace noisemark::memopt::test {
namespace {

constexpr int64_t kWidth = 16;
constexpr int64_t kLength = 48;

/// A loop over cells of LSTM, whose parameters have names that tell no blocks.
TestModel cells() {
  TestModel model;
  const at::Tensor w = at::randn({4 * kWidth, kWidth}).mul_(0.3).set_requires_grad(true);
  const at::Tensor u = at::randn({4 * kWidth, kWidth}).mul_(0.3).set_requires_grad(true);
  model.view.parameters = {{"w", w}, {"u", u}};
  const at::Tensor x = at::randn({kLength, 8, kWidth});
  model.loss = [w, u, x] {
    at::Tensor h = at::zeros({8, kWidth});
    at::Tensor c = at::zeros({8, kWidth});
    for (int64_t t = 0; t < kLength; ++t) std::tie(h, c) = at::lstm_cell(x[t], {h, c}, w, u);
    return h.square().mean();
  };
  return model;
}

/// A layer of GRU, which computes the share of the input in all gates first, and saves none of it.
TestModel gru() {
  TestModel model;
  std::vector<at::Tensor> weights;
  for (const char* name : {"w", "u"}) {
    weights.push_back(at::randn({3 * kWidth, kWidth}).mul_(0.3).set_requires_grad(true));
    model.view.parameters.emplace_back(name, weights.back());
  }
  const at::Tensor x = at::randn({kLength, 8, kWidth});
  model.loss = [weights, x] {
    const auto [out, last] = at::gru(x, at::zeros({1, 8, kWidth}), weights, /*has_biases=*/false, 1,
                                     0.0, /*train=*/true, false, false);
    return out.square().mean();
  };
  return model;
}

PlannedModeReport trained(const std::string& mode, TestModel (*make)(),
                          std::optional<PlanEstimate>& estimate) {
  ModeRun none("none", make);
  ModeRun run(mode, make);
  for (int64_t number = 1; number <= 6; ++number) {
    SCOPED_TRACE(number);
    expect_equal(none.step(number), run.step(number));
  }
  estimate = dynamic_cast<const PlannedMode&>(run.mode()).estimate();
  return run.report();
}

TEST(LowestPeak, of_cells_in_a_loop_keeps_few_of_their_states) {
  for (const char* mode : {"mirror:sqrt", "mirror:sqrt+echo"}) {
    std::optional<PlanEstimate> estimate;
    const PlannedModeReport report = trained(mode, &cells, estimate);
    EXPECT_EQ(report.missing_reason, "");
    EXPECT_EQ(report.counters.departures + report.counters.mismatches, 0);
    ASSERT_TRUE(estimate.has_value());
    EXPECT_LE(estimate->peak_saved_bytes * 3 / 2, report.plan.recorded_bytes) << mode;
  }
}

TEST(LowestPeak, never_follows_a_plan_that_would_hold_more_than_none) {
  std::optional<PlanEstimate> estimate;
  const PlannedModeReport report = trained("mirror", &gru, estimate);
  EXPECT_NE(report.missing_reason.find("would hold more at the peak"), std::string::npos);
  EXPECT_EQ(report.plan.recipes, 0);
  ASSERT_TRUE(estimate.has_value());
  EXPECT_LE(estimate->peak_saved_bytes, report.plan.recorded_bytes);
}

}  // namespace
}  // namespace noisemark::memopt::test
