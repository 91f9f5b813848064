#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <variant>
#include <vector>

#include "reports/base/file.h"
#include "reports/render/check.h"
#include "reports/result/events.h"
#include "reports/result/gate.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// The real program, from the command line to the exit code and the files it leaves.
namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using test::kill_after_a_checkpoint;
using test::noisemark_command;
using test::Process;
using test::result_in;
using test::run_noisemark;
using test::run_noisemark_after;
using test::short_run;
using test::TemporaryFolder;
using test::timed_only;
using test::with;

std::vector<std::string> gate_names(const reports::Result& result, reports::Verdict verdict) {
  std::vector<std::string> names;
  for (const reports::Gate& gate : result.gates) {
    if (gate.verdict == verdict) names.push_back(gate.name);
  }
  return names;
}

TEST(Run, writes_a_whole_result_that_check_accepts) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished run = run_noisemark(short_run(out));
  ASSERT_EQ(run.code, 0) << run.both();
  for (const char* file :
       {"result.json", "report.md", "events.mlog", "weights.safetensors", "ema.safetensors"}) {
    EXPECT_TRUE(fs::exists(out / file)) << file;
  }
  const Finished check = run_noisemark({"check", out.string()});
  EXPECT_EQ(check.code, 0) << check.both();

  const reports::Result result = result_in(out);
  EXPECT_EQ(result.exit.status, "custom");
  EXPECT_EQ(result.samples.loss.size(), 6u);
  EXPECT_TRUE(result.memory.measured);
  EXPECT_TRUE(result.utilization.measured);
  EXPECT_EQ(gate_names(result, reports::Verdict::kFail), std::vector<std::string>{});
  EXPECT_EQ(gate_names(result, reports::Verdict::kNotApplied),
            std::vector<std::string>{"excess_loss"})
      << "a custom run lists the definition's gates as not applied";
}

TEST(Run, notes_how_fast_the_machine_ran_and_what_it_used_or_why_that_is_not_known) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  const reports::Result result = result_in(out);
  const auto events = reports::read_events(reports::read_file(out / "events.mlog"), "events.mlog");
  const auto noted = std::find_if(events.begin(), events.end(), [](const reports::Event& event) {
    return event.key == "machine_state";
  });
  ASSERT_NE(noted, events.end());
  EXPECT_EQ(noted->value, reports::EventValue(result.protocol.steps)) << "after the last step";
  EXPECT_EQ(noted->metadata.contains("cpu_clock_mhz_missing"),
            noted->metadata.at("cpu_clock_mhz") == reports::EventValue{});
  const reports::Metric* energy = reports::find_metric(result, "energy_j");
  ASSERT_NE(energy, nullptr);
  EXPECT_EQ(energy->value.has_value(), energy->missing_reason.empty());
  const reports::Metric* cpu = reports::find_metric(result, "cpu_frac");
  ASSERT_NE(cpu, nullptr);
  EXPECT_GT(cpu->value.value_or(0), 0) << cpu->missing_reason;
}

TEST(Run, logs_the_samples_seen_at_both_ends_of_an_evaluation) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  const reports::Result result = result_in(out);
  std::vector<int64_t> starts, stops;
  for (const auto& event :
       reports::read_events(reports::read_file(out / "events.mlog"), "events.mlog")) {
    if (event.key != "eval_start" && event.key != "eval_stop") continue;
    const auto count = std::get<int64_t>(event.metadata.at("samples_count"));
    (event.key == "eval_start" ? starts : stops).push_back(count);
  }
  EXPECT_FALSE(starts.empty());
  EXPECT_EQ(starts, stops);
  EXPECT_EQ(starts.back(), result.protocol.steps * result.protocol.batch);
}

TEST(Run, never_overwrites_another_run_without_force) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  const std::string before = result_in(out).run_id;
  const Finished second = run_noisemark(timed_only(out));
  EXPECT_EQ(second.code, 2) << second.both();
  EXPECT_NE(second.both().find("--force"), std::string::npos) << second.both();
  EXPECT_EQ(result_in(out).run_id, before);
  EXPECT_EQ(run_noisemark(with(timed_only(out), {"--force"})).code, 0);
  EXPECT_NE(result_in(out).run_id, before);
}

TEST(Run, force_never_touches_a_folder_that_holds_no_run) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "thesis.tex") << "years of work";
  const Finished run = run_noisemark(with(timed_only(folder.path()), {"--force"}));
  EXPECT_EQ(run.code, 2) << run.both();
  EXPECT_TRUE(fs::exists(folder.path() / "thesis.tex"));
}

TEST(Run, killed_at_any_moment_and_resumed_ends_with_the_same_bits) {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole";
  ASSERT_EQ(run_noisemark(timed_only(whole, 40)).code, 0);
  const reports::Result expected = result_in(whole);

  const fs::path killed = folder.path() / "killed";
  const auto arguments = with(timed_only(killed, 40), {"--checkpoint-every", "3"});
  kill_after_a_checkpoint(arguments, killed);
  kill_after_a_checkpoint(with(arguments, {"--resume"}), killed);
  // The loop kills again and again, each time a little later, until one process reaches the end.
  int kills = 2;
  for (int delay_ms = 700;; delay_ms += 150) {
    Process process(noisemark_command(with(arguments, {"--resume"})));
    for (int waited = 0; waited < delay_ms && process.running(); waited += 10) usleep(10'000);
    if (!process.running()) {
      const Finished finished = process.wait();
      ASSERT_EQ(finished.code, 0) << finished.both();
      break;
    }
    process.signal(SIGKILL);
    (void)process.wait();
    ++kills;
  }
  const reports::Result resumed = result_in(killed);
  RecordProperty("kills", kills);
  EXPECT_EQ(resumed.samples.loss, expected.samples.loss);
  EXPECT_EQ(resumed.determinism.loss_trace_sha256, expected.determinism.loss_trace_sha256);
  EXPECT_EQ(resumed.determinism.weights_sha256, expected.determinism.weights_sha256);
  EXPECT_GT(resumed.protocol.resumed_at_step, 0);
}

/// Group norm, dropout, gradients of two micro-batches, autocast: what gmm16 has none of.
std::vector<std::string> ho_in_two_parts(const fs::path& out) {
  return {"run",         "gmm16-ho@cpu",   "--device",    "cpu",
          "--set",       "train.steps=24", "--set",       "train.accumulation=2",
          "--set",       "eval.samples=8", "--set",       "eval.every=0",
          "--precision", "bf16",           "--no-memory", "--no-profile",
          "--out",       out.string()};
}

bool holds_half_a_checkpoint(const fs::path& folder) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().filename().string().starts_with("checkpoint.safetensors.tmp-")) return true;
  }
  return false;
}

/// Returns whether a half-written checkpoint was left behind. Takes the first that is being
/// written.
bool kill_while_a_checkpoint_is_written(const std::vector<std::string>& arguments,
                                        const fs::path& out) {
  Process process(noisemark_command(arguments));
  while (process.running() && !holds_half_a_checkpoint(out)) {
  }
  process.signal(SIGKILL);
  (void)process.wait();
  return holds_half_a_checkpoint(out);
}

TEST(Run, killed_while_a_checkpoint_is_written_and_resumed_ends_with_the_same_bits) {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole";
  ASSERT_EQ(run_noisemark(ho_in_two_parts(whole)).code, 0);
  const reports::Result expected = result_in(whole);

  const fs::path killed = folder.path() / "killed";
  const auto arguments = with(ho_in_two_parts(killed), {"--checkpoint-every", "2"});
  kill_after_a_checkpoint(arguments, killed);
  const auto resume = with(arguments, {"--resume"});
  int halves = 0;
  for (int attempt = 0; attempt < 4; ++attempt) {
    halves += kill_while_a_checkpoint_is_written(resume, killed) ? 1 : 0;
  }
  EXPECT_GT(halves, 0) << "no kill came while a checkpoint was being written";
  const Finished finished = run_noisemark(resume);
  ASSERT_EQ(finished.code, 0) << finished.both();
  const reports::Result resumed = result_in(killed);
  EXPECT_EQ(resumed.samples.loss, expected.samples.loss);
  EXPECT_EQ(resumed.determinism.weights_sha256, expected.determinism.weights_sha256);
  EXPECT_EQ(resumed.determinism.ema_sha256, expected.determinism.ema_sha256);
  EXPECT_GT(resumed.protocol.resumed_at_step, 0);
  EXPECT_FALSE(holds_half_a_checkpoint(killed)) << "leftovers are removed";
}

TEST(Run, the_command_that_a_result_names_repeats_it) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  const reports::Result first = result_in(out);
  const fs::path program = noisemark_command({}).front();
  const Finished again =
      Process({"/bin/sh", "-c",
               "cd " + folder.path().string() + " && PATH=" + program.parent_path().string() +
                   ":$PATH && exec " + first.repeat_command},
              {{"NOISEMARK_OUT", ""}, {"OMP_NUM_THREADS", ""}})
          .wait();
  ASSERT_EQ(again.code, 0) << again.both();
  fs::path repeated;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "noisemark-out")) {
    if (entry.path().filename() == "result.json") repeated = entry.path().parent_path();
  }
  EXPECT_EQ(result_in(repeated).determinism.loss_trace_sha256, first.determinism.loss_trace_sha256);
  EXPECT_EQ(result_in(repeated).identity.threads, first.identity.threads)
      << "of which the first run was told by a variable alone";
}

TEST(Run, without_an_output_folder_the_result_goes_where_the_environment_says) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = timed_only(folder.path() / "named");
  const test::Variables variables{{"NOISEMARK_OUT", (folder.path() / "results").string()}};
  ASSERT_EQ(run_noisemark(arguments, variables).code, 0);
  EXPECT_TRUE(fs::exists(folder.path() / "named" / "result.json")) << "--out comes first";
  arguments.erase(std::find(arguments.begin(), arguments.end(), "--out"), arguments.end());
  const Finished run = run_noisemark(with(arguments, {"--no-memory", "--no-profile"}), variables);
  ASSERT_EQ(run.code, 0) << run.both();
  EXPECT_TRUE(
      fs::exists(folder.path() / "results" / "gmm16@cpu-none-plain-fp32-1" / "result.json"));
}

TEST(Run, a_checkpoint_is_not_continued_with_another_determinism) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto arguments = with(timed_only(out), {"--checkpoint-every", "2"});
  ASSERT_EQ(run_noisemark(arguments).code, 0);
  const Finished resumed = run_noisemark(with(arguments, {"--resume", "--deterministic"}));
  EXPECT_EQ(resumed.code, 3) << resumed.both();
  EXPECT_NE(resumed.both().find("deterministic"), std::string::npos) << resumed.both();
}

TEST(Run, an_interrupt_ends_after_the_step_and_marks_the_result) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(with(timed_only(out, 100'000), {"--checkpoint-every", "2"})));
  ASSERT_TRUE(test::wait_for_file(out / "checkpoint.safetensors"));
  process.signal(SIGINT);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.code, 130) << finished.both();
  const reports::Result result = result_in(out);
  EXPECT_EQ(result.exit.status, "interrupted");
  EXPECT_NE(
      finished.err.find("noisemark: interrupted; the same command with --out " + out.string() +
                        " and --resume continues it, with --force begins anew\n"),
      std::string::npos)
      << finished.err;
  EXPECT_GE(result.samples.loss.size(), 2u);
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
}

/// The first bad tensor depends on the library: the weights are of the size of the learning rate,
/// 1e30.
bool names_an_operator(const std::string& words, const std::string& where) {
  const size_t begin = words.find("output of aten::");
  const size_t end = words.find(" in forward " + where);
  return begin != std::string::npos && end != std::string::npos && begin < end;
}

TEST(Run, a_diverging_run_fails_and_names_the_first_non_finite_tensor) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished run = run_noisemark(
      with(timed_only(out, 50), {"--set", "optimizer.lr=1e30", "--set", "optimizer.clip_norm=0"}));
  EXPECT_EQ(run.code, 1) << run.both();
  const reports::Result result = result_in(out);
  EXPECT_EQ(gate_names(result, reports::Verdict::kFail), std::vector<std::string>{"finite_loss"});
  EXPECT_LT(result.samples.loss.size(), 50u);
  ASSERT_EQ(result.exit.reasons.size(), 1U);
  EXPECT_TRUE(names_an_operator(result.exit.reasons.front(), "at step 1"))
      << result.exit.reasons.front();
}

void expect_divergence_in(const fs::path& out, const Finished& run, const std::string& pass) {
  EXPECT_EQ(run.code, 1) << run.both();
  const reports::Result result = result_in(out);
  EXPECT_EQ(result.exit.status, "failed");
  EXPECT_EQ(gate_names(result, reports::Verdict::kFail), std::vector<std::string>{"finite_loss"});
  EXPECT_TRUE(result.samples.loss.empty());
  ASSERT_EQ(result.exit.reasons.size(), 1U);
  EXPECT_TRUE(names_an_operator(result.exit.reasons.front(), "at step 1 of the " + pass))
      << result.exit.reasons.front();
  const Finished check = run_noisemark({"check", out.string()});
  EXPECT_EQ(check.code, 0) << check.both();
}

const std::vector<std::string> kDivergence = {"--set", "optimizer.lr=1e30", "--set",
                                              "optimizer.clip_norm=0"};

TEST(Run, that_diverges_in_the_memory_pass_fails_and_names_the_pass) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished run = run_noisemark(with(short_run(out), kDivergence));
  expect_divergence_in(out, run, "memory pass");
}

TEST(Run, that_diverges_in_training_fails_keeps_the_memory_pass_and_makes_no_profile) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished run =
      run_noisemark(with(with(short_run(out), kDivergence), {"--set", "measure.memory_steps=1"}));
  EXPECT_EQ(run.code, 1) << run.both();
  const reports::Result result = result_in(out);
  EXPECT_EQ(gate_names(result, reports::Verdict::kFail), std::vector<std::string>{"finite_loss"});
  ASSERT_EQ(result.exit.reasons.size(), 1U);
  EXPECT_TRUE(names_an_operator(result.exit.reasons.front(), "at step 1"))
      << result.exit.reasons.front();
  EXPECT_TRUE(result.memory.measured);
  EXPECT_EQ(result.utilization.missing_reason, "it is made after training, which did not end");
  const Finished check = run_noisemark({"check", out.string()});
  EXPECT_EQ(check.code, 0) << check.both();
}

TEST(Run, initial_weights_come_back_from_a_file_bit_for_bit) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_noisemark(timed_only(folder.path() / "a")).code, 0);
  const auto again =
      with(timed_only(folder.path() / "b"),
           {"--init-weights", (folder.path() / "a" / "weights.safetensors").string()});
  ASSERT_EQ(run_noisemark(again).code, 0);
  EXPECT_EQ(result_in(folder.path() / "b").provenance.init_weights_sha256,
            result_in(folder.path() / "a").determinism.weights_sha256);
}

TEST(Run, a_full_disk_is_exit_74) {
  const TemporaryFolder folder;
  // A file size limit is the full disk that needs no privilege; SIGXFSZ is ignored so that write()
  // fails instead.
  const Finished run =
      run_noisemark_after("trap '' XFSZ; ulimit -f 1", timed_only(folder.path() / "out"));
  EXPECT_EQ(run.code, 74) << run.both();
}

TEST(Run, out_of_memory_is_exit_71_and_says_who_held_what) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  // An image keeps 3.3 MiB for backward: 4,096 of them fit no address space of 8 GiB.
  const Finished run =
      run_noisemark_after("ulimit -v 8388608", with(short_run(out), {"--set", "train.batch=4096"}));
  EXPECT_EQ(run.code, 71) << run.both();
  EXPECT_EQ(result_in(out).exit.status, "out of memory");
  const std::string reason = result_in(out).exit.reasons.at(0);
  EXPECT_NE(reason.find("weights"), std::string::npos) << reason;
  EXPECT_NE(reason.find("activations"), std::string::npos) << reason;
}

TEST(Run, several_modes_or_baselines_run_in_processes_of_their_own_and_share_a_report) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished run =
      run_noisemark(with(timed_only(out), {"--baseline", "plain", "--baseline", "channels-last"}));
  ASSERT_EQ(run.code, 0) << run.both();
  EXPECT_TRUE(fs::exists(out / "report.md"));
  EXPECT_TRUE(fs::exists(out / "gmm16@cpu" / "none-plain-fp32" / "result.json"));
  EXPECT_TRUE(fs::exists(out / "gmm16@cpu" / "none-channels-last-fp32" / "result.json"));
}

TEST(Run, several_that_cannot_run_here_are_incomplete_and_not_failed_unless_it_is_required) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const std::vector<std::string> arguments{
      "run",        "ho-cifar10@cpu", "--device", "cpu",        "--baseline", "plain",
      "--baseline", "channels-last",  "--out",    out.string(), "--force"};
  const auto report_with = [&](const std::string& required, int code) {
    const Finished run =
        run_noisemark(arguments, {{"NOISEMARK_DATA", ""}, {"NOISEMARK_REQUIRE", required}});
    EXPECT_EQ(run.code, code) << run.both();
    return reports::read_file(out / "report.md");
  };
  EXPECT_TRUE(report_with("", 77).starts_with(
      "# INCOMPLETE: ho-cifar10@cpu\n\n0 of 2 runs passed, 2 cannot run here.\n\n"
      "- `ho-cifar10@cpu/none-plain-fp32`: cannot run here: ho-cifar10: --data: not given, "));
  EXPECT_TRUE(report_with("cuda", 1).starts_with("# FAIL: ho-cifar10@cpu\n"));
}

TEST(Run, a_device_that_is_not_here_cannot_run_unless_it_is_required) {
  const TemporaryFolder folder;
  if (run_noisemark(
          {"run", "gmm16@cpu", "--device", "cuda:63", "--out", (folder.path() / "x").string()})
          .code == 2) {
    GTEST_SKIP() << "this machine has a CUDA device";
  }
  const std::vector<std::string> arguments{"run",  "gmm16", "--device",
                                           "cuda", "--out", (folder.path() / "out").string()};
  EXPECT_EQ(run_noisemark(arguments).code, 77);
  EXPECT_EQ(run_noisemark(arguments, {{"NOISEMARK_REQUIRE", "cuda"}}).code, 1);
  const Finished unnamed = run_noisemark({"run", "gmm16", "--out", (folder.path() / "y").string()},
                                         {{"NOISEMARK_REQUIRE", "cuda"}});
  EXPECT_EQ(unnamed.code, 1) << unnamed.both();
  EXPECT_FALSE(fs::exists(folder.path() / "y"));
}

TEST(Pace, makes_the_steps_it_is_told_to_and_answers_one_line_each) {
  const TemporaryFolder folder;
  const Finished run = run_noisemark_after(
      "printf 'run 2\\nrun 1\\nquit\\n' > " + (folder.path() / "turns").string() + "; exec < " +
          (folder.path() / "turns").string(),
      {"pace", "gmm16@cpu", "--device", "cpu", "--set", "train.batch=4"});
  ASSERT_EQ(run.code, 0) << run.both();
  const std::string answers = run.both();
  EXPECT_EQ(std::count(answers.begin(), answers.end(), '\n'), 3) << answers;
  EXPECT_NE(answers.find("\"ready\":true"), std::string::npos);
}

TEST(Pace, that_diverges_fails_and_names_the_first_non_finite_tensor) {
  const TemporaryFolder folder;
  const std::string turns = (folder.path() / "turns").string();
  const Finished run = run_noisemark_after(
      "printf 'run 4\\n' > " + turns + "; exec < " + turns,
      with({"pace", "gmm16@cpu", "--device", "cpu", "--set", "train.batch=4"}, kDivergence));
  EXPECT_EQ(run.code, 1) << run.both();
  EXPECT_TRUE(run.err.starts_with("noisemark: step 1: first non-finite tensor: output of aten::"))
      << run.err;
  EXPECT_TRUE(run.err.ends_with(" in forward\n")) << run.err;
}

}  // namespace
}  // namespace noisemark::suite
