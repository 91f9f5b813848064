#include "reports/seeds/measures.h"

#include <gtest/gtest.h>

#include "reports/result/gate.h"
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
  EXPECT_EQ(measure_named("cifarnet_distance").margin, 0) << "likewise";
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

TEST(Measures, of_a_target_are_of_where_the_loss_crossed_it) {
  Result result = test::full_result();
  std::vector<Evaluation>& all = result.quality.evaluations;
  ASSERT_EQ(all.size(), 3U);
  all[1].loss = 0.4;
  all[2].loss = 0.1;
  result.quality.target_loss = 0.2;  // half way down, in the logarithm
  const auto metric = [&](const char* name, double value) {
    result.metrics.push_back({name, "", Direction::kLower, value, "", "exact", {}, 1, ""});
  };
  metric("time_to_quality_s", all[2].elapsed_s);
  metric("samples_to_quality", static_cast<double>(all[2].samples_seen));
  EXPECT_NEAR(observe(result, "time_to_quality_s").value.value(),
              (all[1].elapsed_s + all[2].elapsed_s) / 2, 1e-12);
  EXPECT_NEAR(observe(result, "samples_to_quality").value.value(),
              static_cast<double>(all[1].samples_seen + all[2].samples_seen) / 2, 1e-9);
  all[2].loss = 0.2;
  EXPECT_DOUBLE_EQ(observe(result, "samples_to_quality").value.value(),
                   static_cast<double>(all[2].samples_seen))
      << "at the evaluation itself";
  all[0].loss = 0.2;
  EXPECT_DOUBLE_EQ(observe(result, "time_to_quality_s").value.value(), all[2].elapsed_s)
      << "as the result says, where nothing was evaluated before";
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
