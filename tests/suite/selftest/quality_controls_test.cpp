// Negative controls of `noisemark quality`: real trainings, some of them broken on purpose. With
// NOISEMARK_UPDATE_GOLDEN in the environment their results are kept for the tests of reports/,
// which judge the same runs on any machine.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "reports/file.h"
#include "reports/json_io.h"
#include "reports/quality/judge.h"
#include "reports/quality/quality_markdown.h"
#include "suite/run/plan.h"
#include "suite/run/single_run.h"
#include "suite/train/fault.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::NamedResult;
using reports::QualityStudy;
using reports::QualityVerdict;
using reports::Side;

constexpr uint64_t kSeeds = 3;

/// Steps enough to learn something, and no pass but the training.
RunOptions short_training(const std::string& mode, uint64_t seed) {
  RunOptions options;
  options.id = "gmm16-ho@cpu";
  options.modes = {mode};
  options.device = "cpu";
  options.threads = 1;
  options.seed = seed;
  options.sets = {"train.steps=20", "train.batch=8", "eval.samples=64", "eval.every=0",
                  "optimizer.lr=1e-3"};
  options.deterministic = true;
  options.memory = false;
  options.profile = false;
  options.certificate = false;
  options.verdict = false;
  return options;
}

void keep(const std::string& control, uint64_t seed, const fs::path& result) {
  if (std::getenv("NOISEMARK_UPDATE_GOLDEN") == nullptr) return;
  const fs::path folder = fs::path(NOISEMARK_RECORDED_QUALITY) / control / std::to_string(seed);
  reports::make_folder(folder);
  fs::copy_file(result, folder / "result.json", fs::copy_options::overwrite_existing);
}

/// A run of every seed under a mode, with a fault.
void train(const std::string& control, const std::string& mode, const Fault& fault, Side& side) {
  const test::TemporaryFolder folder;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RunOptions options = short_training(mode, seed);
    const fs::path out = folder.path() / fmt::format("{}-{}", control, seed);
    ASSERT_EQ(run_single(options, plan_runs(options).front(), out, fault), ExitCode::kPass);
    keep(control, seed, out / "result.json");
    side.runs.push_back({out.filename().string(), reports::read_result(out / "result.json")});
  }
}

/// Mode echo with a fault, beside none without.
QualityStudy judged(const std::string& control, const Fault& fault) {
  Side side{control, {}};
  train("none", "none", {}, side);
  train(control, "echo", fault, side);
  return reports::judge_quality(side);
}

TEST(QualityControls, an_untouched_twin_passes_with_a_difference_of_0) {
  const QualityStudy study = judged("twin", {});
  EXPECT_EQ(study.verdict, QualityVerdict::kPass) << quality_markdown(study);
  EXPECT_EQ(study.rows.front().words, "trained to the same bits in every seed");
  EXPECT_EQ(study.rows.front().difference, 0);
}

TEST(QualityControls, a_loss_scaled_so_far_down_that_its_gradients_drown_is_red) {
  Fault fault;
  fault.loss_factor = 1e-6;  // a gradient below Adam's eps moves a weight too little
  const QualityStudy study = judged("drowned", fault);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_EQ(exit_code_of(study), ExitCode::kFailed);
}

TEST(QualityControls, half_of_every_batch_is_no_proof_either_way) {
  Fault fault;
  fault.halved_from = 0;
  const QualityStudy study = judged("halved", fault);
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << quality_markdown(study);
  EXPECT_GT(study.rows.front().seeds_needed.value_or(10'000), static_cast<int64_t>(kSeeds));
}

}  // namespace
}  // namespace noisemark::suite
