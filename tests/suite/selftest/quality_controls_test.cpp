// Negative controls of quality: real trainings, some of them broken on purpose, and the gate that
// must turn red. With NOISEMARK_UPDATE_GOLDEN in the environment the results of tier 2 are kept for
// the tests of reports/, which judge the same runs on any machine.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "reports/base/file.h"
#include "reports/result/gate.h"
#include "reports/result/json_io.h"
#include "reports/seeds/judge.h"
#include "reports/seeds/measures.h"
#include "reports/seeds/study.h"
#include "suite/config/catalogue.h"
#include "suite/config/keys.h"
#include "suite/config/lock.h"
#include "suite/run/single_run.h"
#include "suite/run/spec/plan.h"
#include "suite/train/fault.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::NamedResult;
using reports::QualityStudy;
using reports::QualityVerdict;
using reports::Side;

/// A training beside mode "none".
struct Control {
  std::string name;  ///< the name of its folder
  std::string mode;
  Fault fault = {};
  int64_t seeds = 1;
  std::vector<std::string> sets = {};
  bool certificate = false;
};

/// Steps enough to learn something, and no pass but the training.
RunOptions short_training(const std::string& mode, uint64_t seed, const Control& control) {
  RunOptions options;
  options.id = "gmm16-ho@cpu";
  options.modes = {mode};
  options.device = "cpu";
  options.threads = 1;
  options.seed = seed;
  options.sets = {"train.steps=20", "train.batch=8", "eval.samples=64", "eval.every=0",
                  "optimizer.lr=1e-3"};
  // Bits and gradients tell after a few steps; only losses need to have learned something.
  if (control.seeds == 1) {
    options.sets.emplace_back("train.steps=6");
    options.sets.emplace_back("eval.samples=16");
  }
  options.sets.insert(options.sets.end(), control.sets.begin(), control.sets.end());
  options.deterministic = true;
  options.memory = false;
  options.profile = false;
  options.certificate = control.certificate && mode != "none";
  options.verdict = false;
  return options;
}

void keep(const std::string& name, uint64_t seed, const fs::path& result) {
  if (std::getenv("NOISEMARK_UPDATE_GOLDEN") == nullptr) return;
  const fs::path folder = fs::path(NOISEMARK_RECORDED_QUALITY) / name / std::to_string(seed);
  reports::make_folder(folder);
  fs::copy_file(result, folder / "result.json", fs::copy_options::overwrite_existing);
}

/// Both sides, every seed; the fault is in the mode's.
Side trained(const Control& control) {
  const test::TemporaryFolder folder;
  Side side{control.name, {}};
  for (const std::string& mode : {std::string("none"), control.mode}) {
    for (int64_t seed = 0; seed < control.seeds; ++seed) {
      const RunOptions options = short_training(mode, static_cast<uint64_t>(seed), control);
      const fs::path out = folder.path() / fmt::format("{}-{}", mode, seed);
      const Fault fault = mode == "none" ? Fault{} : control.fault;
      (void)run_single(options, plan_runs(options).front(), out, fault);
      if (control.seeds > 1) {
        keep(mode == "none" ? mode : control.name, static_cast<uint64_t>(seed),
             out / "result.json");
      }
      side.runs.push_back({out.filename().string(), reports::read_result(out / "result.json")});
    }
  }
  return side;
}

const reports::StepRow& step_row(const QualityStudy& study) {
  if (study.steps.size() != 1) throw std::logic_error("not one row of tiers 0 and 1");
  return study.steps.front();
}

bool has_failed(const reports::Result& result, const std::string& gate) {
  return std::any_of(result.gates.begin(), result.gates.end(), [&](const reports::Gate& one) {
    return one.name == gate && one.verdict == reports::Verdict::kFail;
  });
}

TEST(QualityControls, an_untouched_twin_passes_with_a_difference_of_0) {
  const QualityStudy study = judge_quality(trained({.name = "twin", .mode = "echo", .seeds = 3}));
  EXPECT_EQ(study.verdict, QualityVerdict::kPass) << quality_markdown(study);
  EXPECT_EQ(study.rows.front().words, "trained to the same bits in every seed");
  EXPECT_EQ(study.rows.front().difference, 0);
  EXPECT_EQ(step_row(study).tier, 0);
  EXPECT_EQ(step_row(study).verdict, QualityVerdict::kPass);
}

TEST(QualityControls, a_loss_scaled_so_far_down_that_its_gradients_drown_is_red) {
  Fault fault;
  fault.loss_factor = 1e-6;  // a gradient below Adam's eps moves a weight too little
  // Three seeds and no more: their one look has all of alpha.
  const QualityStudy study = judge_quality(
      trained({.name = "drowned", .mode = "dpr16", .fault = fault, .seeds = 3}), {.looks = 1});
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_EQ(study.rows.front().verdict, QualityVerdict::kFail);
  EXPECT_EQ(exit_code_of(study), ExitCode::kFailed);
}

TEST(QualityControls, half_of_every_batch_is_no_proof_either_way) {
  Fault fault;
  fault.halved_from = 0;
  const QualityStudy study =
      judge_quality(trained({.name = "halved", .mode = "dpr16", .fault = fault, .seeds = 3}));
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << quality_markdown(study);
  EXPECT_GT(study.rows.front().seeds_needed.value_or(10'000), 3);
}

TEST(QualityControls, recomputation_that_does_not_restore_the_generator_of_dropout_is_red) {
  Fault fault;
  fault.redrawn_dropout = true;
  const Side side =
      trained({.name = "redrawn", .mode = "echo", .fault = fault, .certificate = true});
  const reports::Result& broken = side.runs.back().result;
  EXPECT_TRUE(has_failed(broken, "certificate"));
  EXPECT_EQ(broken.exit.code, static_cast<int>(ExitCode::kFailed));
  const QualityStudy study = judge_quality(side);
  EXPECT_EQ(step_row(study).verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail);
}

TEST(QualityControls, an_average_that_is_one_step_behind_is_red_though_the_weights_are_equal) {
  Fault fault;
  fault.late_average = true;
  const Side side = trained({.name = "late", .mode = "echo", .fault = fault});
  EXPECT_EQ(side.runs.front().result.determinism.weights_sha256,
            side.runs.back().result.determinism.weights_sha256);
  const QualityStudy study = judge_quality(side);
  EXPECT_EQ(step_row(study).verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_NE(step_row(study).words.find("other averages of the weights"), std::string::npos);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail);
}

TEST(QualityControls, accumulation_that_is_not_divided_is_red) {
  Fault fault;
  fault.undivided_loss = true;
  const QualityStudy study = judge_quality(trained(
      {.name = "undivided", .mode = "echo", .fault = fault, .sets = {"train.accumulation=2"}}));
  EXPECT_EQ(step_row(study).verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_NE(step_row(study).words.find("other weights"), std::string::npos);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail);
}

TEST(QualityControls, accumulation_as_it_is_passes) {
  const QualityStudy study =
      judge_quality(trained({.name = "divided", .mode = "echo", .sets = {"train.accumulation=2"}}));
  EXPECT_EQ(step_row(study).verdict, QualityVerdict::kPass) << quality_markdown(study);
}

TEST(QualityControls, two_bits_without_scales_of_groups_are_red_and_with_them_are_not) {
  Fault fault;
  fault.coarse_saving = true;
  const Side side = trained({.name = "coarse", .mode = "q2", .fault = fault, .certificate = true});
  const QualityStudy study = judge_quality(side);
  EXPECT_EQ(step_row(study).tier, 1);
  EXPECT_EQ(step_row(study).verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail);
  const QualityStudy sound =
      judge_quality(trained({.name = "grouped", .mode = "q2", .certificate = true}));
  EXPECT_EQ(step_row(sound).verdict, QualityVerdict::kPass) << quality_markdown(sound);
}

TEST(QualityControls, every_codec_that_rounds_more_coarsely_than_it_should_is_red) {
  Fault fault;
  fault.coarse_saving = true;
  for (const char* mode : {"dpr16", "dpr10", "dpr8", "q4"}) {
    const QualityStudy broken = judge_quality(
        trained({.name = "coarse", .mode = mode, .fault = fault, .certificate = true}));
    EXPECT_EQ(step_row(broken).verdict, QualityVerdict::kFail) << quality_markdown(broken);
    const QualityStudy sound =
        judge_quality(trained({.name = "sound", .mode = mode, .certificate = true}));
    EXPECT_EQ(step_row(sound).verdict, QualityVerdict::kPass) << quality_markdown(sound);
  }
}

TEST(QualityKeys, have_the_defaults_that_reports_judge_by_without_a_definition) {
  const QualityConfig defaults;
  const std::map<std::string, double> margins = {
      {"val_loss", defaults.val_loss_margin},
      {"val_loss_weighted", defaults.val_loss_weighted_margin},
      {"time_to_quality_s", defaults.time_to_quality_s_margin},
      {"samples_to_quality", defaults.samples_to_quality_margin},
      {"fid", defaults.fid_margin},
      {"kid", defaults.kid_margin},
      {"cifarnet_distance", defaults.cifarnet_distance_margin}};
  for (const reports::Measure& measure : reports::known_measures()) {
    ASSERT_TRUE(margins.contains(measure.name)) << "no key: quality." << measure.name << "_margin";
    EXPECT_EQ(margins.at(measure.name), measure.margin) << measure.name;
    const Key* key = find_key("quality." + measure.name + "_margin");
    ASSERT_NE(key, nullptr) << measure.name;
    if (measure.scale != reports::DifferenceScale::kLogRatio) continue;
    EXPECT_EQ(key->accepted.max, reports::kWidestQualityMargin) << measure.name;
  }
}

TEST(QualityKeys, without_a_bound_of_their_own_leave_the_gradient_to_the_modes) {
  RunSpec spec;
  spec.mode = resolve_mode("dpr16");
  spec.definition = load_definition("gmm16-ho", "cpu");
  EXPECT_EQ(gradient_bound(spec), spec.mode.gradient_bound);
  spec.definition.quality.gradient_error_max = 0.25;
  EXPECT_EQ(gradient_bound(spec), 0.25);
}

}  // namespace
}  // namespace noisemark::suite
