#include <gtest/gtest.h>

#include "reports/base/file.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// Runs that are killed and continued under what changes how a step is executed.
namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using test::kill_after_a_checkpoint;
using test::result_in;
using test::run_noisemark;
using test::TemporaryFolder;
using test::timed_only;
using test::with;

constexpr int64_t kSteps = 24;
/// More passes than a mode watches: both halves of a run follow the plan.
constexpr int64_t kWatched = 4;

/// Trains once whole, and once killed after its first checkpoint and continued.
void expect_the_same_bits(const std::vector<std::string>& how) {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole";
  const Finished uninterrupted = run_noisemark(with(timed_only(whole, kSteps), how));
  ASSERT_EQ(uninterrupted.code, 0) << uninterrupted.both();
  const reports::Result expected = result_in(whole);

  const fs::path killed = folder.path() / "killed";
  const auto arguments =
      with(with(timed_only(killed, kSteps), how), {"--checkpoint-every", std::to_string(kWatched)});
  kill_after_a_checkpoint(arguments, killed);
  const Finished continued = run_noisemark(with(arguments, {"--resume"}));
  ASSERT_EQ(continued.code, 0) << continued.both();
  const reports::Result resumed = result_in(killed);
  EXPECT_GE(resumed.protocol.resumed_at_step, kWatched);
  EXPECT_LE(resumed.protocol.resumed_at_step, kSteps - kWatched);
  EXPECT_EQ(resumed.samples.loss, expected.samples.loss);
  EXPECT_EQ(resumed.determinism.weights_sha256, expected.determinism.weights_sha256);
}

TEST(Resume, ends_with_the_same_bits_under_a_lossless_mode) {
  // The net has dropout, whose masks are not kept but drawn again.
  expect_the_same_bits({"--set", "model.dropout=0.1", "--mode", "echo", "--no-certificate"});
}

TEST(Resume, ends_with_the_same_bits_in_bf16_with_accumulation) {
  expect_the_same_bits({"--precision", "bf16", "--set", "train.accumulation=2"});
}

TEST(Resume, ends_with_the_same_bits_with_weights_in_channels_last) {
  expect_the_same_bits({"--baseline", "channels-last"});
}

TEST(Resume, of_nothing_begins_a_run_and_says_so) {
  const TemporaryFolder folder;
  const auto arguments = with(timed_only(folder.path() / "out", 2), {"--resume"});
  const Finished begun = run_noisemark(arguments);
  EXPECT_EQ(begun.code, 0) << begun.both();
  EXPECT_NE(begun.err.find("--resume: " + (folder.path() / "out").string() +
                           ": nothing is there yet, the run begins"),
            std::string::npos)
      << begun.err;
  EXPECT_EQ(run_noisemark(arguments).err.find("nothing is there"), std::string::npos);
}

TEST(Resume, is_refused_under_a_lossy_mode_and_without_its_checkpoint_begins_anew) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto arguments = with(timed_only(out, kSteps),
                              {"--mode", "dpr8", "--no-certificate", "--checkpoint-every", "4"});
  kill_after_a_checkpoint(arguments, out);
  const std::string events = reports::read_file(out / "events.mlog");
  const Finished refused = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(refused.code, 3) << refused.both();
  EXPECT_NE(refused.err.find("--resume: " + (out / "checkpoint.safetensors").string() +
                             ": of dpr8, a mode that rounds"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(reports::read_file(out / "events.mlog"), events);
  EXPECT_FALSE(fs::exists(out / "result.json"));

  fs::remove(out / "checkpoint.safetensors");
  const Finished anew = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(anew.code, 0) << anew.both();
  EXPECT_NE(anew.err.find("--checkpoint-every: dpr8 is a mode that rounds"), std::string::npos)
      << anew.err;
  EXPECT_EQ(result_in(out).protocol.resumed_at_step, 0);
  const Finished again = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(again.code, 0) << "a finished run is left alone: " << again.both();
}

}  // namespace
}  // namespace noisemark::suite
