// `noisemark sample --patch-parallel`, as a user meets it.

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "suite/io/numpy.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using test::process_of;
using test::run_noisemark;
using Words = std::vector<std::string>;

/// A network that was trained until its samples have patterns, once for all of these tests.
class SampleByRanks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    trained = new test::TemporaryFolder;
    const Finished finished =
        run_noisemark({"run", "gmm16@cpu", "--device", "cpu", "--set", "train.steps=60", "--set",
                       "eval.samples=8", "--set", "eval.every=0", "--no-memory", "--no-profile",
                       "--out", (trained->path() / "run").string()});
    ASSERT_NE(finished.code, 2) << finished.both();  // a gate may fail after so short a training
  }
  static void TearDownTestSuite() { delete trained; }

  [[nodiscard]] fs::path out(const std::string& name) const { return folder_.path() / name; }

  [[nodiscard]] Words command(const std::string& name, const Words& more,
                              const std::string& samples = "8") const {
    Words words = {"sample",    "gmm16@cpu",
                   "--device",  "cpu",
                   "--steps",   "20",
                   "--weights", (trained->path() / "run" / "weights.safetensors").string(),
                   "--out",     out(name).string(),
                   "--samples", samples};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  [[nodiscard]] Finished sample(const std::string& name, const Words& more) const {
    return run_noisemark(command(name, more), {{"NOISEMARK_REQUIRE", ""}});
  }

  [[nodiscard]] at::Tensor drawn(const std::string& name, const Words& more = {}) const {
    const Finished finished = sample(name, more);
    EXPECT_EQ(finished.code, 0) << finished.both();
    return read_npy((out(name) / "samples.npy").string());
  }

  [[nodiscard]] at::Tensor drawn_by_two(const std::string& mode, const Words& more = {}) const {
    Words words = {"--patch-parallel", "2", "--patch-mode", mode};
    words.insert(words.end(), more.begin(), more.end());
    return drawn(mode, words);
  }

  [[nodiscard]] nlohmann::json record(const std::string& name) const {
    return nlohmann::json::parse(std::ifstream(out(name) / "sampling.json"));
  }

  static test::TemporaryFolder* trained;
  test::TemporaryFolder folder_;
};

test::TemporaryFolder* SampleByRanks::trained = nullptr;

/// Samples that no test waits for.
constexpr const char* kEndless = "100000";

/// Returns the peak signal-to-noise ratio of values in [-1, 1].
double psnr_db(const at::Tensor& samples, const at::Tensor& serial) {
  return 10 * std::log10(4 / (samples - serial).square().mean().item<double>());
}

TEST_F(SampleByRanks, draws_in_full_sync_what_one_process_draws) {
  const at::Tensor serial = drawn("serial");
  // float32 through twenty steps; a step alone is within 1e-5 (suite/sampling).
  EXPECT_LT((drawn_by_two("full_sync") - serial).abs().max().item<double>(), 1e-4);
  EXPECT_EQ(record("full_sync")["noise"], record("serial")["noise"]);
  EXPECT_EQ(record("full_sync")["execution"]["patches"], "full_sync on 2 ranks");
  EXPECT_FALSE(record("serial")["execution"].contains("patches"));
}

/// The bound of 30 dB is the issue's; the control must be seen to be worse by the same measure.
TEST_F(SampleByRanks, draws_displaced_nearly_the_same_and_without_exchange_another_thing) {
  const at::Tensor serial = drawn("serial");
  const double displaced = psnr_db(drawn_by_two("displaced"), serial);
  const double no_sync = psnr_db(drawn_by_two("no_sync"), serial);
  EXPECT_GE(displaced, 30);
  EXPECT_LT(no_sync, displaced - 10);
}

TEST_F(SampleByRanks, tells_the_bytes_of_a_step_by_count_and_by_formula) {
  const Finished finished = sample(
      "out", {"--patch-parallel", "2", "--patch-warmup", "2", "--set", "diffusion.timesteps=500"});
  ASSERT_EQ(finished.code, 0) << finished.both();
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1)
      << "rank 0 alone says that the weights were trained otherwise: " << finished.err;
  EXPECT_NE(finished.out.find("Patches: displaced on 2 ranks, 2 warm-up steps."), std::string::npos)
      << finished.out;
  const nlohmann::json steps = record("out")["patches"]["steps"];
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0]["steps"], 3);
  EXPECT_EQ(steps[1]["steps"], 17);
  for (const nlohmann::json& one : steps) {
    EXPECT_EQ(one["bytes"], one["bytes_by_formula"]);
    EXPECT_GT(one["bytes"], 0);
    EXPECT_GT(one["predicted_step_s"], 0);
  }
}

TEST_F(SampleByRanks, says_where_ranks_share_processors) {
  const std::string more = std::to_string(sysconf(_SC_NPROCESSORS_ONLN));
  const Finished finished = sample("out", {"--patch-parallel", "2", "--threads", more});
  ASSERT_EQ(finished.code, 0) << finished.both();
  EXPECT_NE(finished.out.find("No efficiency is claimed: 2 ranks of " + more), std::string::npos)
      << finished.out;
}

TEST_F(SampleByRanks, refuses_what_it_cannot_do) {
  const Finished three = sample("out", {"--patch-parallel", "3"});
  EXPECT_EQ(three.code, 2);
  EXPECT_EQ(three.err,
            "noisemark: --patch-parallel: 3 (a divisor of the 8 rows that the image "
            "has in its lowest stage)\n");
  const Finished word = sample("out", {"--patch-parallel", "2", "--patch-mode", "sync"});
  EXPECT_EQ(word.code, 2);
  EXPECT_NE(word.err.find("one of: full_sync, displaced, sync_gn, stale_gn, separate_gn, no_sync"),
            std::string::npos)
      << word.err;
  for (const Words& alone : {Words{"--patch-mode", "no_sync"}, Words{"--patch-warmup", "2"}}) {
    const Finished refused = sample("out", alone);
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.err, "noisemark: " + alone.front() + ": " + alone.back() +
                               " (only with --patch-parallel of at least 2)\n");
  }
  EXPECT_FALSE(fs::exists(out("out")));
}

TEST_F(SampleByRanks, ends_with_the_cause_when_a_rank_is_killed_and_leaves_nobody) {
  test::Process process(test::noisemark_command(
      command("out", {"--patch-parallel", "2", "--timeout", "12"}, kEndless)));
  ASSERT_TRUE(test::wait_for_file(out("out")));
  const auto victim = process_of(out("out"), 1);
  ASSERT_TRUE(victim);
  const auto begin = std::chrono::steady_clock::now();
  kill(*victim, SIGKILL);
  const Finished finished = process.wait();
  EXPECT_LE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(12));
  EXPECT_EQ(finished.code, 70) << finished.both();
  EXPECT_NE(finished.err.find("rank 1"), std::string::npos) << finished.err;
  EXPECT_FALSE(fs::exists(out("out") / "sampling.json"));
  for (const int64_t rank : {0, 1}) EXPECT_FALSE(process_of(out("out"), rank)) << rank;
}

TEST_F(SampleByRanks, can_be_interrupted) {
  test::Process process(
      test::noisemark_command(command("out", {"--patch-parallel", "2"}, kEndless)));
  ASSERT_TRUE(test::wait_for_file(out("out")));
  process.signal(SIGINT);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.code, 130) << finished.both();
  for (const int64_t rank : {0, 1}) EXPECT_FALSE(process_of(out("out"), rank)) << rank;
}

}  // namespace
}  // namespace noisemark::suite
