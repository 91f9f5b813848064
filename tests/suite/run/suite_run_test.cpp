#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>

#include "reports/base/sha256.h"
#include "reports/render/run_folder.h"
#include "reports/result/json_io.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// Several runs with a common report: what is theirs, and what was there before.
namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::file_bytes;
using test::Finished;
using test::noisemark_command;
using test::Process;
using test::result_in;
using test::run_noisemark;
using test::TemporaryFolder;
using test::timed_only;
using test::with;

const std::vector<std::string> kNames = {"gmm16@cpu/none-plain-fp32",
                                         "gmm16@cpu/none-channels-last-fp32"};
constexpr const char* kAllEnded = "# CUSTOM: gmm16@cpu\n\n2 of 2 runs ended, 2 custom (";

std::vector<std::string> two_runs(const fs::path& out, int64_t steps = 6) {
  return with(timed_only(out, steps), {"--baseline", "plain", "--baseline", "channels-last"});
}

std::string id_in(const fs::path& out, size_t run) {
  return result_in(out / kNames[run]).run_id;
}

void expect_reported(const fs::path& out, const std::string& words) {
  const std::string report = file_bytes(out / "report.md");
  EXPECT_NE(report.find(words), std::string::npos) << report;
}

TEST(SuiteRun, with_force_never_shows_the_results_of_the_suite_before) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(two_runs(out)).code, 0);
  expect_reported(out, kAllEnded);
  const std::string before = id_in(out, 0);

  const fs::path weights = folder.path() / "weights.safetensors";
  std::ofstream(weights) << "no weights";
  const Finished failed =
      run_noisemark(with(two_runs(out), {"--force", "--init-weights", weights.string()}));
  EXPECT_EQ(failed.code, 2) << failed.both();
  expect_reported(out, "# FAIL: gmm16@cpu\n\n0 of 2 runs passed, 2 failed.");
  expect_reported(out, "`" + kNames[1] + "`: it left no result");
  EXPECT_EQ(id_in(out, 0), before);

  ASSERT_EQ(run_noisemark(with(two_runs(out), {"--force"})).code, 0);
  expect_reported(out, kAllEnded);
  EXPECT_NE(id_in(out, 0), before);
}

TEST(SuiteRun, with_force_that_is_interrupted_keeps_the_earlier_result) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(two_runs(out)).code, 0);
  const std::string before = id_in(out, 0);
  {
    Process process(noisemark_command(with(two_runs(out, 100'000), {"--force"})));
    ASSERT_TRUE(test::wait_for_file(out / kNames[0] / "replacement" / "events.mlog", "run_start"));
    process.signal_all(SIGINT);
    EXPECT_EQ(process.wait().code, 130);
  }
  EXPECT_EQ(id_in(out, 0), before);
  expect_reported(out, "# INCOMPLETE: gmm16@cpu\n\n0 of 2 runs passed, 2 not finished.");
  expect_reported(out, "`" + kNames[0] + "`: interrupted");
}

std::vector<std::string> seeds_of(const fs::path& out, const std::string& shard) {
  return with(timed_only(out, 4), {"--seeds", "3", "--baseline", "plain", "--baseline",
                                   "channels-last", "--shard", shard});
}

TEST(SuiteRun, of_a_part_keeps_the_variants_of_a_seed_together_and_is_taken_with_the_others) {
  const TemporaryFolder folder;
  const fs::path all = folder.path() / "all";
  ASSERT_EQ(run_noisemark(seeds_of(all / "a", "1/2")).code, 0);
  EXPECT_EQ(reports::read_suite(all / "a")->names.size(), 4U);
  expect_reported(all / "a", "# CUSTOM: gmm16@cpu, part 1 of 2\n\n4 of 4 runs ended, 4 custom (");
  const Finished half = run_noisemark({"report", all.string()});
  EXPECT_EQ(half.code, 3);
  EXPECT_NE(half.err.find("part 2 of 2 of the suite is missing"), std::string::npos) << half.err;
  ASSERT_EQ(run_noisemark(seeds_of(all / "b", "2/2")).code, 0);
  EXPECT_EQ(run_noisemark({"report", all.string()}).code, 0);
  expect_reported(all, "6 of 6 runs ended, 6 custom (");
  EXPECT_EQ(run_noisemark({"table", all.string()}).code, 0);
  const Finished other = run_noisemark(with(seeds_of(all / "b", "1/2"), {"--resume"}));
  EXPECT_EQ(other.code, 3) << "it has the other part: " << other.both();
}

TEST(SuiteRun, of_parts_with_other_options_or_definitions_is_none) {
  const TemporaryFolder folder;
  const fs::path own = folder.path() / "own.toml";
  std::string text = file_bytes(NOISEMARK_SOURCE "/suite/benchmarks/v1/gmm16.toml");
  const auto part = [&](const std::string& number, const std::vector<std::string>& more) {
    std::ofstream(own) << text;
    std::vector<std::string> words = with(test::timed_only(folder.path() / "all" / number, 1),
                                          {"--seeds=2", "--shard=" + number + "/2"});
    words[1] = own.string();
    const Finished done = run_noisemark(with(words, more));
    EXPECT_EQ(done.code, 0) << done.both();
  };
  const auto refusal = [&] {
    const Finished done = run_noisemark({"table", (folder.path() / "all").string()});
    EXPECT_EQ(done.code, 3) << done.both();
    return done.err;
  };
  part("1", {});
  part("2", {"--set=train.accumulation=2"});
  EXPECT_NE(refusal().find(": options: "), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("--set train.accumulation=2"), std::string::npos) << refusal();
  text += "\n# The definition is the same.\n";
  part("2", {"--force", "--data=" + folder.path().string()});
  EXPECT_EQ(run_noisemark({"table", (folder.path() / "all").string()}).code, 0);
  const std::string steps = "memory_steps = 3";
  text.replace(text.find(steps), steps.size(), "memory_steps = 2");
  part("2", {"--force"});
  EXPECT_NE(refusal().find(": definitions, SHA-256: "), std::string::npos) << refusal();
}

TEST(SuiteRun, refuses_a_part_that_there_is_not) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  test::expect_bad_input(seeds_of(out, "4/4"),
                         "--shard: 4/4 (at most 3 parts, one for each benchmark and seed)");
  test::expect_bad_input(seeds_of(out, "2/1"),
                         "--shard: 2/1 (K/N, two whole numbers from 1 on, K at most N)");
}

TEST(SuiteRun, takes_over_only_the_folder_of_a_suite) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "report.md") << "years of work";
  for (const char* option : {"--force", "--resume"}) {
    const Finished run = run_noisemark(with(two_runs(folder.path()), {option}));
    EXPECT_EQ(run.code, 2) << run.both();
  }
  EXPECT_EQ(file_bytes(folder.path() / "report.md"), "years of work");
  EXPECT_FALSE(fs::exists(folder.path() / "suite.json"));
}

TEST(SuiteRun, resumed_leaves_finished_runs_alone_and_makes_the_others) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(two_runs(out)).code, 0);
  const std::string first = id_in(out, 0);
  const std::string second = id_in(out, 1);
  fs::remove(out / kNames[1] / "result.json");  // a kill before the result leaves this

  const Finished resumed = run_noisemark(with(two_runs(out), {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_EQ(id_in(out, 0), first);
  EXPECT_NE(id_in(out, 1), second);
  expect_reported(out, kAllEnded);

  const Finished other = run_noisemark(with(two_runs(out), {"--resume", "--seed", "9"}));
  EXPECT_EQ(other.code, 3) << other.both();
  EXPECT_EQ(id_in(out, 0), first);
}

TEST(SuiteRun, resumed_ends_as_its_finished_runs_did) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto diverging =
      with(two_runs(out), {"--set", "optimizer.lr=1e30", "--set", "optimizer.clip_norm=0"});
  ASSERT_EQ(run_noisemark(diverging).code, 1);
  const std::string first = id_in(out, 0);
  const Finished resumed = run_noisemark(with(diverging, {"--resume"}));
  EXPECT_EQ(resumed.code, 1) << resumed.both();
  EXPECT_EQ(id_in(out, 0), first);
}

TEST(SuiteRun, resumed_makes_a_run_again_that_threw_before_it_was_judged) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(two_runs(out)).code, 0);
  const std::string second = id_in(out, 1);
  reports::Result thrown = result_in(out / kNames[0]);
  const std::string first = thrown.run_id;
  thrown.exit = {1, "failed", {"a sample is not finite"}};
  thrown.gates.clear();
  reports::write_result(out / kNames[0] / "result.json", thrown);

  const Finished resumed = run_noisemark(with(two_runs(out), {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_NE(id_in(out, 0), first);
  EXPECT_EQ(id_in(out, 1), second);
  expect_reported(out, kAllEnded);
}

TEST(SuiteRun, that_was_stopped_takes_no_look_at_quality_and_says_how_it_is_continued) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "my out";
  const auto arguments = with(timed_only(out, 40), {"--mode", "none", "--mode", "echo", "--seeds",
                                                    "2", "--no-certificate", "--deterministic"});
  {
    Process process(noisemark_command(arguments));
    ASSERT_TRUE(test::wait_for_file(out / "gmm16@cpu" / "none-plain-fp32-seed0" / "result.json"));
    process.signal_all(SIGINT);
    expect_interrupted(process.wait(), "noisemark: interrupted", "'" + out.string() + "'");
  }
  EXPECT_FALSE(fs::exists(out / "quality.json"));
  const Finished resumed = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_TRUE(fs::exists(out / "quality.json"));
}

TEST(SuiteRun, that_was_killed_is_continued) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto arguments = with(two_runs(out, 40), {"--checkpoint-every", "3"});
  {
    Process process(noisemark_command(arguments));
    ASSERT_TRUE(test::wait_for_file(out / kNames[0] / "checkpoint.safetensors"));
    process.signal_all(SIGKILL);
    (void)process.wait();
  }
  const Finished resumed = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_GT(result_in(out / kNames[0]).protocol.resumed_at_step, 0);
  expect_reported(out, kAllEnded);
}

TEST(SuiteRun, with_force_that_was_cut_off_is_continued_as_one) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(two_runs(out)).code, 0);
  const std::string first = id_in(out, 0);
  const std::string second = id_in(out, 1);
  // The files that --force left when it was killed when its first run had ended.
  const std::string digest = reports::sha256_of_file(out / kNames[1] / "result.json");
  reports::write_suite(out, {"gmm16@cpu", kNames, {{kNames[1], digest}}});

  const Finished resumed = run_noisemark(with(two_runs(out), {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_EQ(id_in(out, 0), first);
  EXPECT_NE(id_in(out, 1), second);
  expect_reported(out, kAllEnded);
}

TEST(SuiteRun, of_several_seeds_under_several_modes_is_judged) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "my out";
  const auto arguments =
      with(timed_only(out), {"--mode", "none", "--mode", "echo", "--seed", "5", "--seeds", "2",
                             "--deterministic", "--no-certificate"});
  const Finished run = run_noisemark(arguments);
  ASSERT_EQ(run.code, 0) << run.both();
  EXPECT_NE(run.out.find("quality: PASS. Gates: 1 PASS. Certificates: 1 PASS ("), std::string::npos)
      << run.out;
  EXPECT_TRUE(run.out.ends_with("; `noisemark quality '" + out.string() + "'` exits with 0)\n"))
      << run.out;
  for (const char* name : {"none-plain-fp32-seed5", "none-plain-fp32-seed6",
                           "echo-plain-fp32-seed5", "echo-plain-fp32-seed6"}) {
    EXPECT_EQ(result_in(out / "gmm16@cpu" / name).seeds.base,
              static_cast<uint64_t>(name[std::strlen(name) - 1] - '0'))
        << name;
  }
  EXPECT_NE(file_bytes(out / "quality.md").find("trained to the same bits in every seed"),
            std::string::npos);
  const Finished judged = run_noisemark({"quality", out.string()});
  EXPECT_EQ(judged.code, 0) << judged.both();
  EXPECT_EQ(judged.out, file_bytes(out / "quality.md"));

  // More seeds are added to those that are there.
  const std::string first = result_in(out / "gmm16@cpu" / "none-plain-fp32-seed5").run_id;
  auto more = arguments;
  more[std::find(more.begin(), more.end(), "--seeds") - more.begin() + 1] = "3";
  more.emplace_back("--resume");
  const Finished resumed = run_noisemark(more);
  ASSERT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_EQ(result_in(out / "gmm16@cpu" / "none-plain-fp32-seed5").run_id, first);
  EXPECT_TRUE(fs::exists(out / "gmm16@cpu" / "echo-plain-fp32-seed7" / "result.json"));
}

TEST(SuiteRun, holds_to_the_looks_that_were_declared_with_the_first) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto arguments = with(
      timed_only(out), {"--mode", "none", "--mode", "dpr8", "--seeds", "2", "--no-certificate"});
  const Finished first = run_noisemark(with(arguments, {"--looks", "1"}));
  EXPECT_NE(file_bytes(out / "quality.md").find("look 1 of 1 declared"), std::string::npos)
      << first.both();
  EXPECT_EQ(first.code, 0) << "its own gates alone decide";
  const int judged = run_noisemark({"quality", out.string()}).code;
  EXPECT_TRUE(first.out.ends_with("` exits with " + std::to_string(judged) + ")\n")) << first.out;
  const Finished other = run_noisemark(with(arguments, {"--resume", "--looks", "2"}));
  EXPECT_EQ(other.code, 2) << other.both();
  EXPECT_NE(other.err.find("--looks: 2 (1, as was declared"), std::string::npos) << other.err;
  const Finished again = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(again.code, first.code) << again.both();
  const Finished many = run_noisemark(with(arguments, {"--resume", "--looks", "11"}));
  EXPECT_NE(many.err.find("--looks: 11 (1 to 10)"), std::string::npos) << many.err;
}

TEST(SuiteRun, refuses_more_seeds_than_it_could_name) {
  const TemporaryFolder folder;
  const Finished run = run_noisemark(with(timed_only(folder.path() / "out"), {"--seeds", "1001"}));
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.err.find("--seeds: 1001 (1 to 1000)"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace noisemark::suite
