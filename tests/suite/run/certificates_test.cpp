// Modes that call themselves lossless, on both U-Nets, with the baselines that change kernels,
// memory layout or the place of memory too: no bit differs from mode "none", and a plan that drops
// or encodes something was followed to get there.

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/modes/mode.h"
#include "suite/run/passes/mode_figures.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"
#include "tests/suite/run/small_nets.h"

namespace noisemark::suite {
namespace {

using test::FollowedPlan;
using test::SmallTraining;

class SmallNet : public testing::TestWithParam<SmallTraining> {};

TEST_P(SmallNet, trains_bitwise_as_without_its_mode) {
  const SideBySide trained = test::beside_none(GetParam());
  const reports::Certificate proof = certificate_of(trained, /*lossless=*/true);
  EXPECT_EQ(proof.verdict, reports::Verdict::kPass) << proof.words;
  ASSERT_EQ(proof.sha256.size(), trained.compared.size());
  EXPECT_EQ(proof.sha256, proof.reference_sha256);
}

TEST_P(SmallNet, follows_a_plan_that_was_exact) {
  const FollowedPlan followed = test::follow_plan(GetParam());
  const memopt::PlannedModeReport& report = followed.report;
  ASSERT_NE(followed.plan, nullptr) << report.missing_reason;
  EXPECT_EQ(report.missing_reason, "");
  EXPECT_GT(report.plan.dropped_bytes + report.plan.encoded_from_bytes, 0);
  EXPECT_LT(report.plan.held_bytes, report.plan.recorded_bytes);
  EXPECT_EQ(report.counters.departures, 0);
  EXPECT_EQ(report.kept_after_mismatch, 0);
  if (report.plan.dropped_bytes > 0) {
    EXPECT_GT(report.counters.recipes_run, 0);
  }
}

std::vector<SmallTraining> trainings() {
  std::vector<SmallTraining> all;
  for (const char* net : {"lucid", "ho"}) {
    for (const char* mode :
         {"echo", "echo+attn", "mirror", "mirror+echo", "gist", "offload:all", test::kHalfBudget}) {
      all.push_back({net, mode});
    }
    all.push_back({net, "mirror+echo", "plain", "bf16"});
    for (const char* mode : {"echo", "mirror+echo"}) {
      all.push_back({net, mode, "fused+channels-last"});
    }
    all.push_back({net, "echo", "fused+channels-last", "bf16"});
  }
  return all;
}

/// Every mode of the table in NHWC memory, with plain kernels. Budgets by half of what there is to
/// choose from: the table's are larger than these nets.
std::vector<SmallTraining> in_channels_last(bool lossless) {
  std::vector<SmallTraining> all;
  for (const char* net : {"lucid", "ho", "ho-relu"}) {
    for (const memopt::ModeEntry& entry : memopt::modes()) {
      const bool budget = entry.name.starts_with("budget");
      if (entry.name == "none" || budget || entry.lossless != lossless) continue;
      all.push_back({net, std::string(entry.name), "channels-last"});
    }
    if (lossless) all.push_back({net, test::kHalfBudget, "channels-last"});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(ChannelsLast, SmallNet, testing::ValuesIn(in_channels_last(true)),
                         [](const testing::TestParamInfo<SmallTraining>& tested) {
                           return test::test_name(tested.param);
                         });

class RoundingSmallNet : public testing::TestWithParam<SmallTraining> {};

TEST_P(RoundingSmallNet, follows_its_plan_and_rounds_as_it_does_in_planes) {
  const FollowedPlan followed = test::follow_plan(GetParam());
  EXPECT_EQ(followed.report.missing_reason, "");
  EXPECT_GT(followed.report.plan.encoded_from_bytes, 0);
  EXPECT_EQ(followed.report.counters.departures, 0);
  SmallTraining planes = GetParam();
  planes.baseline = "plain";
  const double error =
      gradient_error_of({differences_of(test::beside_none(GetParam()))}).error_frac.value();
  const double of_planes =
      gradient_error_of({differences_of(test::beside_none(planes))}).error_frac.value();
  EXPECT_GT(error, 0);
  // The same values are rounded alike; only groups of 256 neighbours (q) are others.
  EXPECT_LE(error, 2 * of_planes);
}

INSTANTIATE_TEST_SUITE_P(ChannelsLast, RoundingSmallNet, testing::ValuesIn(in_channels_last(false)),
                         [](const testing::TestParamInfo<SmallTraining>& tested) {
                           return test::test_name(tested.param);
                         });

INSTANTIATE_TEST_SUITE_P(Certificates, SmallNet, testing::ValuesIn(trainings()),
                         [](const testing::TestParamInfo<SmallTraining>& tested) {
                           return test::test_name(tested.param);
                         });

/// Something that a plan makes again by calling its operator, which reads what the operators before
/// it made.
struct NamedRecipe {
  const char* name;
  SmallTraining training;
  std::vector<std::string_view> chain;
};

std::ostream& operator<<(std::ostream& to, const NamedRecipe& recipe) {
  return to << recipe.name;
}

class SmallNetRecipe : public testing::TestWithParam<NamedRecipe> {};

TEST_P(SmallNetRecipe, is_in_a_plan_and_was_exact) {
  const FollowedPlan followed = test::follow_plan(GetParam().training);
  ASSERT_NE(followed.plan, nullptr) << followed.report.missing_reason;
  EXPECT_TRUE(test::makes_again(*followed.plan, GetParam().chain))
      << "made again are: " << test::made_again(*followed.plan);
  // A plan says nothing of what a pass that compares has found to differ, or could not compare.
  EXPECT_EQ(followed.report.kept_after_mismatch, 0);
  EXPECT_EQ(followed.report.counters.mismatches, 0);
  EXPECT_GT(followed.report.counters.recipes_run, 0);
}

std::vector<NamedRecipe> named_recipes() {
  const SmallTraining echo{"lucid", "echo"};
  const SmallTraining attention{"lucid", "echo+attn"};
  const SmallTraining mirror{"lucid", "mirror"};
  return {
      {"rms_norm",
       echo,
       {"aten::linalg_vector_norm", "aten::clamp_min", "aten::expand", "aten::div"}},
      {"rms_norm_gain", echo, {"aten::div", "aten::mul", "aten::mul"}},
      {"scale_shift", mirror, {"aten::add", "aten::mul", "aten::add"}},
      {"activation_of_scale_shift", echo, {"aten::mul", "aten::add", "aten::silu"}},
      {"chunked_scale_shift",
       mirror,
       {"aten::addmm", "aten::unsqueeze", "aten::unsqueeze", "aten::split"}},
      {"scaled_softmax", echo, {"aten::_softmax", "aten::mul"}},
      {"softmax", attention, {"aten::cat", "aten::_softmax"}},
      {"softmax_in_mirror", mirror, {"aten::cat", "aten::_softmax"}},
      {"pixel_unshuffle", echo, {"aten::pixel_unshuffle"}},
      {"einsum", attention, {"aten::bmm"}},
      {"einsum_in_mirror", mirror, {"aten::bmm"}},
      {"chunked_qkv", attention, {"aten::convolution", "aten::split"}},
      {"chunked_qkv_in_mirror", mirror, {"aten::convolution", "aten::split"}},
      {"learned_keys_beside_keys",
       attention,
       {"aten::unbind", "aten::unsqueeze", "aten::expand", "aten::cat", "aten::_softmax"}},
      {"fused_rms_norm",
       {"lucid", "echo", "fused+channels-last"},
       {"noisemark::rms_norm_act_from_statistics"}},
      {"fused_rms_norm_in_mirror",
       {"lucid", "mirror+echo", "fused+channels-last"},
       {"noisemark::rms_norm_act"}},
      {"fused_group_norm",
       {"ho", "echo", "fused+channels-last"},
       {"noisemark::group_norm_act_from_statistics"}},
      {"fused_group_norm_in_mirror",
       {"ho", "mirror+echo", "fused+channels-last"},
       {"noisemark::group_norm_act_from_statistics"}},
      {"fused_group_norm_in_nchw",
       {"ho", "echo", "fused"},
       {"noisemark::group_norm_act_from_statistics"}},
      {"concatenation", {"ho", "echo"}, {"aten::cat"}},
      {"upsampling", {"ho", "echo"}, {"aten::upsample_nearest2d"}},
      // In float32 a shortcut has the norm and its activation in one.
      {"silu_of_group_norm",
       {"ho", "echo", "plain", "bf16"},
       {"aten::native_group_norm", "aten::silu"}},
      {"relu_of_group_norm",
       {"ho-relu", "echo", "plain", "bf16"},
       {"aten::native_group_norm", "aten::relu"}},
      {"gelu", echo, {"aten::addmm", "aten::gelu"}},
      {"cast_to_bf16", {"lucid", "echo", "plain", "bf16"}, {"aten::_to_copy"}},
      {"attention_of_one_kernel",
       {"ho", "echo+attn"},
       {"aten::_scaled_dot_product_flash_attention_for_cpu"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Recipes, SmallNetRecipe, testing::ValuesIn(named_recipes()),
                         [](const testing::TestParamInfo<NamedRecipe>& tested) {
                           return std::string(tested.param.name);
                         });

TEST(SmallNetRecipes, are_told_apart_by_what_their_operator_reads) {
  const FollowedPlan followed = test::follow_plan({"lucid", "echo"});
  ASSERT_NE(followed.plan, nullptr);
  EXPECT_FALSE(test::makes_again(*followed.plan, {"aten::bmm"})) << "no element-wise operator";
  EXPECT_FALSE(test::makes_again(*followed.plan, {"aten::_softmax", "aten::silu"}));
}

/// "pooled" is a setting of the process: only a process of its own may have it.
void expect_certificate_with_pooled_memory(const std::string& id, const std::string& net,
                                           const std::string& mode) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  std::vector<std::string> arguments = {"run",         id,
                                        "--device",    "cpu",
                                        "--mode",      mode,
                                        "--baseline",  "fused+channels-last+pooled",
                                        "--set",       "train.steps=2",
                                        "--out",       out.string(),
                                        "--no-profile"};
  for (const std::string& set : test::small_sets(net)) {
    arguments.insert(arguments.end(), {"--set", set});
  }
  const test::Finished run = test::run_noisemark(arguments);
  ASSERT_EQ(run.code, 0) << run.both();
  const reports::MemoryMode mode_report = test::result_in(out).memory_mode;
  EXPECT_EQ(mode_report.certificate.verdict, reports::Verdict::kPass)
      << mode_report.certificate.words;
  EXPECT_EQ(mode_report.reference, "none-fused+channels-last+pooled-fp32");
  EXPECT_GT(mode_report.dropped_bytes, 0);
  EXPECT_EQ(mode_report.departures, 0);
}

TEST(RunUnderAModeAndABaseline, has_a_certificate_with_pooled_memory_too) {
  expect_certificate_with_pooled_memory("gmm16@cpu", "lucid", "echo");
  expect_certificate_with_pooled_memory("gmm16-ho@cpu", "ho", "mirror+echo");
}

}  // namespace
}  // namespace noisemark::suite
