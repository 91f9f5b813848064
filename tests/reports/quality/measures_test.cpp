#include "reports/quality/measures.h"

#include <gtest/gtest.h>

#include "reports/gate.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

TEST(Measures, have_the_margins_of_the_design) {
  EXPECT_EQ(measure_named("val_loss").margin, 0.01);
  EXPECT_EQ(measure_named("fid").margin, 0.05);
  EXPECT_EQ(measure_named("fid").fewest_seeds, 5);
  EXPECT_EQ(measure_named("time_to_quality_s").margin, 0.03);
  EXPECT_EQ(measure_named("kid").scale, DifferenceScale::kDifference);
  EXPECT_EQ(measure_named("images_per_s").margin, 0) << "must be given";
}

TEST(Measures, take_their_margin_from_the_definition) {
  Result result = test::full_result();
  EXPECT_EQ(margin_in_definition(result, "val_loss"), std::nullopt);
  result.definition = R"({"quality":{"val_loss_margin":0.02}})";
  EXPECT_EQ(margin_in_definition(result, "val_loss"), 0.02);
  EXPECT_EQ(margin_in_definition(result, "fid"), std::nullopt);
  result.definition = R"({"quality":{"val_loss_margin":"wide"}})";
  EXPECT_EQ(margin_in_definition(result, "val_loss"), std::nullopt);
  result.definition = "not JSON";
  EXPECT_EQ(margin_in_definition(result, "val_loss"), std::nullopt);
}

TEST(Measures, of_a_timestep_are_of_the_last_evaluation) {
  Result result = test::full_result();
  const std::vector<int64_t> timesteps = evaluated_timesteps(result);
  ASSERT_EQ(timesteps.size(), 8U);
  EXPECT_EQ(observe_loss_at(result, timesteps[2]).value,
            result.quality.evaluations.back().per_timestep[2]);
  EXPECT_EQ(observe_loss_at(result, 1).value, std::nullopt);
  result.quality.evaluations.clear();
  EXPECT_TRUE(evaluated_timesteps(result).empty());
}

TEST(Measures, say_why_they_are_missing) {
  const Result result = test::full_result();
  EXPECT_EQ(observe(result, "energy_j").missing_reason, "no counter on this machine");
  EXPECT_EQ(observe(result, "no_such").missing_reason, "not measured");
}

TEST(Measures, know_a_run_that_ended_early_or_left_the_finite_numbers) {
  Result result = test::full_result();
  result.exit.code = 1;
  EXPECT_TRUE(is_finished(result)) << "a failed gate ends no training";
  Result thrown = result;
  thrown.gates.clear();
  EXPECT_FALSE(is_finished(thrown)) << "what threw before its gates did not end";
  result.exit.code = 130;
  EXPECT_FALSE(is_finished(result));
  EXPECT_FALSE(is_not_finite(result));
  result.gates = evaluate_gates(result, {}, {false, "loss at step 12"});
  EXPECT_TRUE(is_not_finite(result));
}

TEST(Measures, call_weights_the_same_only_where_they_are_known) {
  Result a = test::full_result();
  Result b = a;
  EXPECT_TRUE(same_weights(a, b));
  b.determinism.ema_sha256.clear();
  EXPECT_FALSE(same_weights(a, b));
  a.determinism = {};
  b.determinism = {};
  EXPECT_FALSE(same_weights(a, b));
}

}  // namespace
}  // namespace noisemark::reports
