#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <thread>

#include "reports/base/file.h"
#include "suite/run/passes/watch.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// Runs that do not reach their end: what they leave, and what they say.
namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::file_bytes;
using test::Finished;
using test::noisemark_command;
using test::Process;
using test::result_in;
using test::run_noisemark;
using test::run_noisemark_after;
using test::short_run;
using test::TemporaryFolder;
using test::timed_only;
using test::with;

// A write beyond the limit fails as on a full disk, and needs no privilege: 512 bytes each.
constexpr const char* kDiskOf4Kib = "trap '' XFSZ; ulimit -f 8";
constexpr const char* kDiskOf512Kib = "trap '' XFSZ; ulimit -f 1024";

std::vector<std::string> long_memory_pass(const fs::path& out) {
  return with(short_run(out), {"--set", "measure.memory_steps=1000"});
}

void expect_interrupted_in(const fs::path& out, const Finished& finished, const std::string& pass) {
  EXPECT_EQ(finished.code, 130) << finished.both();
  const reports::Result result = result_in(out);
  EXPECT_EQ(result.exit.status, "interrupted");
  EXPECT_NE(result.exit.reasons.at(0).find(pass), std::string::npos) << result.exit.reasons.at(0);
  const Finished check = run_noisemark({"check", out.string()});
  EXPECT_EQ(check.code, 0) << check.both();
}

TEST(Interrupt, in_the_memory_pass_leaves_a_result_marked_so) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(long_memory_pass(out)));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "memory_pass_start"));
  process.signal(SIGINT);
  expect_interrupted_in(out, process.wait(), "memory pass");
  EXPECT_FALSE(result_in(out).memory.measured);
  EXPECT_TRUE(result_in(out).samples.loss.empty());
  const std::string before = file_bytes(out / "result.json");
  const Finished other = run_noisemark(with(long_memory_pass(out), {"--resume", "--seed", "9"}));
  EXPECT_EQ(other.code, 3) << other.both();
  EXPECT_EQ(file_bytes(out / "result.json"), before) << "of another run, although unfinished";
  EXPECT_EQ(run_noisemark(with(long_memory_pass(out), {"--resume", "--no-memory"})).code, 0)
      << "a run that ended before its first checkpoint begins again";
}

TEST(Interrupt, in_the_profile_pass_keeps_what_was_measured_before) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(with(short_run(out), {"--set", "measure.profile_steps=1000"})));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "profile_pass_start"));
  process.signal(SIGTERM);
  expect_interrupted_in(out, process.wait(), "profile pass");
  EXPECT_TRUE(result_in(out).memory.measured);
  EXPECT_FALSE(result_in(out).samples.loss.empty()) << "it is made after training";
}

TEST(Interrupt, in_the_profile_pass_costs_no_training_where_checkpoints_are_written) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto arguments = with(short_run(out, 5), {"--no-memory", "--checkpoint-every", "3", "--set",
                                                  "measure.profile_steps=100"});
  Process process(noisemark_command(arguments));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "profile_pass_start"));
  process.signal(SIGINT);
  expect_interrupted_in(out, process.wait(), "profile pass");
  const auto before = result_in(out);
  const Finished resumed = run_noisemark(with(arguments, {"--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.both();
  const reports::Result after = result_in(out);
  EXPECT_EQ(after.protocol.resumed_at_step, 5);
  EXPECT_EQ(after.samples.loss, before.samples.loss);
  EXPECT_TRUE(after.utilization.measured);
}

/// The last evaluation is the second.
std::vector<std::string> long_evaluations(const fs::path& out, int64_t samples) {
  std::vector<std::string> words = timed_only(out, 2);
  for (std::string& word : words) {
    if (word.starts_with("eval.samples=")) word = "eval.samples=" + std::to_string(samples);
  }
  return words;
}

TEST(Interrupt, in_the_first_evaluation_ends_it_and_records_none) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(long_evaluations(out, 60'000)));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "eval_start"));
  process.signal(SIGHUP);
  expect_interrupted_in(out, process.wait(), "in the evaluation after step 0 of 2");
  EXPECT_TRUE(result_in(out).quality.evaluations.empty());
  EXPECT_EQ(file_bytes(out / "events.mlog").find("eval_accuracy"), std::string::npos);
}

TEST(Interrupt, in_a_later_evaluation_is_continued_with_that_one) {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole";
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(long_evaluations(whole, 2000)).code, 0);
  Process process(noisemark_command(long_evaluations(out, 2000)));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", R"("step":2})"));
  process.signal(SIGTERM);
  expect_interrupted_in(out, process.wait(), "in the evaluation after step 2 of 2");
  EXPECT_EQ(result_in(out).quality.evaluations.size(), 1U);
  const auto ended_well = [](const fs::path& run) {
    return reports::read_file(run / "events.mlog").find(R"("status":"success")") !=
           std::string::npos;
  };
  EXPECT_TRUE(ended_well(whole));
  EXPECT_FALSE(ended_well(out));
  const Finished resumed = run_noisemark(with(long_evaluations(out, 2000), {"--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.both();
  const reports::Quality quality = result_in(out).quality;
  const reports::Quality expected = result_in(whole).quality;
  ASSERT_EQ(quality.evaluations.size(), 2U);
  EXPECT_EQ(quality.evaluations[1].loss, expected.evaluations[1].loss);
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
}

TEST(Interrupt, of_several_runs_ends_all_and_still_writes_their_report) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(
      with(long_memory_pass(out), {"--baseline", "plain", "--baseline", "channels-last"})));
  const fs::path first = out / "gmm16@cpu" / "none-plain-fp32";
  ASSERT_TRUE(test::wait_for_file(first / "events.mlog", "memory_pass_start"));
  process.signal_all(SIGINT);
  expect_interrupted_in(first, process.wait(), "memory pass");
  EXPECT_FALSE(fs::exists(out / "gmm16@cpu" / "none-channels-last-fp32"));
  const std::string report = file_bytes(out / "report.md");
  EXPECT_TRUE(report.starts_with("# INCOMPLETE: gmm16@cpu\n\n0 of 2 runs passed, 2 not finished."))
      << report;
  EXPECT_NE(report.find("- `gmm16@cpu/none-channels-last-fp32`: not started\n"), std::string::npos);
}

TEST(Interrupt, of_the_parent_of_several_runs_alone_ends_the_run_in_progress_and_all) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(
      with(long_memory_pass(out), {"--baseline", "plain", "--baseline", "channels-last"})));
  const fs::path first = out / "gmm16@cpu" / "none-plain-fp32";
  ASSERT_TRUE(test::wait_for_file(first / "events.mlog", "memory_pass_start"));
  process.signal(SIGTERM);
  expect_interrupted_in(first, process.wait(), "memory pass");
  EXPECT_TRUE(fs::exists(out / "report.md"));
  EXPECT_FALSE(fs::exists(out / "gmm16@cpu" / "none-channels-last-fp32"));
}

/// Both are pending before the process goes on, so no step can end between them. Two of the same
/// number would become one.
void signal_twice_at_once(const Process& process) {
  process.signal(SIGSTOP);
  process.signal(SIGINT);
  process.signal(SIGTERM);
  process.signal(SIGCONT);
}

TEST(Interrupt, a_second_one_ends_the_process_at_once) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(long_memory_pass(out)));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "memory_pass_start"));
  signal_twice_at_once(process);
  const int code = process.wait().code;
  EXPECT_TRUE(code == 128 + SIGINT || code == 128 + SIGTERM) << code;
  EXPECT_FALSE(fs::exists(out / "result.json"));
}

TEST(Interrupt, a_second_one_of_several_runs_ends_the_run_at_once_and_is_reported) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(
      with(long_memory_pass(out), {"--baseline", "plain", "--baseline", "channels-last"})));
  const fs::path first = out / "gmm16@cpu" / "none-plain-fp32";
  ASSERT_TRUE(test::wait_for_file(first / "events.mlog", "memory_pass_start"));
  signal_twice_at_once(process);
  EXPECT_EQ(process.wait().code, 130);
  EXPECT_FALSE(fs::exists(first / "result.json"));
  EXPECT_TRUE(fs::exists(out / "report.md"));
}

TEST(Interrupt, that_a_terminal_sent_and_the_parent_passed_on_is_one) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(long_memory_pass(out)));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "memory_pass_start"));
  process.signal(SIGSTOP);
  process.signal(SIGINT);
  process.pass_on(SIGTERM);
  process.signal(SIGCONT);
  expect_interrupted_in(out, process.wait(), "memory pass");
}

TEST(InterruptGuard, lets_the_second_of_two_equal_signals_end_the_process) {
  const auto interrupt_twice = [] {
    const InterruptGuard guard;
    std::raise(SIGINT);
    if (!guard.requested()) std::_Exit(1);
    std::raise(SIGINT);
    std::_Exit(2);
  };
  EXPECT_EXIT(interrupt_twice(), testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptGuard, takes_no_warning_for_the_first_of_two_interrupts) {
  const auto warn_and_interrupt = [] {
    const InterruptGuard guard;
    for (const int signal : {SIGUSR1, SIGHUP, SIGTERM, SIGUSR2}) std::raise(signal);
    std::_Exit(guard.requested() ? 0 : 1);
  };
  EXPECT_EXIT(warn_and_interrupt(), testing::ExitedWithCode(0), "");
}

TEST(InterruptGuard, takes_what_follows_a_warning_for_one_request_until_the_process_ends) {
  const auto warn_and_go_on = [] {
    {
      const InterruptGuard guard;
      std::raise(SIGHUP);
    }
    for (const int signal : {SIGHUP, SIGUSR1, SIGTERM}) std::raise(signal);
    std::_Exit(0);
  };
  EXPECT_EXIT(warn_and_go_on(), testing::ExitedWithCode(0), "");
  const auto interrupt_after_it = [] {
    {
      const InterruptGuard guard;
      std::raise(SIGINT);
    }
    std::raise(SIGINT);
    std::_Exit(0);
  };
  EXPECT_EXIT(interrupt_after_it(), testing::KilledBySignal(SIGINT), "");
}

TEST(EndOnRequest, is_exit_130_and_a_sentence_except_while_a_guard_is_there) {
  for (const int signal : kEndRequests) {
    const auto ask = [&] {
      end_on_request();
      { const InterruptGuard guard; }
      std::raise(signal);
      std::_Exit(0);
    };
    EXPECT_EXIT(ask(), testing::ExitedWithCode(130), "^noisemark: interrupted by SIG[A-Z0-9]+\n$");
  }
  const auto ask_with_a_guard = [] {
    end_on_request();
    const InterruptGuard guard;
    std::raise(SIGTERM);
    std::_Exit(guard.requested() ? 0 : 1);
  };
  EXPECT_EXIT(ask_with_a_guard(), testing::ExitedWithCode(0), "^$");
  const auto ask_under_nohup = [] {
    std::signal(SIGHUP, SIG_IGN);
    end_on_request();
    { const InterruptGuard guard; }
    std::raise(SIGHUP);
    std::_Exit(0);
  };
  EXPECT_EXIT(ask_under_nohup(), testing::ExitedWithCode(0), "^$");
}

/// Says whether the process takes the signal itself; false after a minute.
bool wait_until_it_takes(const fs::path& pid_file, int signal) {
  const auto takes = [&] {
    std::string pid;
    std::ifstream(pid_file) >> pid;
    std::ifstream status("/proc/" + pid + "/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigCgt:")) continue;
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1U) != 0;
    }
    return false;
  };
  for (int i = 0; i < 6000 && !takes(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return takes();
}

TEST(EndOnRequest, holds_for_a_command_that_works_for_long_and_keeps_nothing) {
  const TemporaryFolder folder;
  const fs::path pid = folder.path() / "pid";
  for (const int signal : {SIGHUP, SIGTERM}) {
    fs::remove(pid);
    Process process(
        noisemark_command({"plan", "gmm16-ho@cpu", "--device", "cpu", "--budget", "64GiB"},
                          "echo $$ > " + pid.string()));
    ASSERT_TRUE(wait_until_it_takes(pid, signal));
    process.signal(signal);
    const Finished ended = process.wait();
    EXPECT_EQ(ended.code, 130) << ended.both();
    EXPECT_NE(ended.err.find("noisemark: interrupted by SIG"), std::string::npos) << ended.err;
  }
}

TEST(Interrupt, with_a_full_disk_is_exit_74_and_says_what_cannot_be_written) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(long_memory_pass(out), kDiskOf4Kib));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "memory_pass_start"));
  process.signal(SIGINT);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.code, 74) << finished.both();
  EXPECT_NE(finished.err.find("result.json: cannot be written"), std::string::npos) << finished.err;
}

TEST(Failure, in_training_keeps_the_steps_that_were_made) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished run =
      run_noisemark_after(kDiskOf512Kib, with(timed_only(out), {"--checkpoint-every", "4"}));
  EXPECT_EQ(run.code, 74) << run.both();
  EXPECT_NE(run.err.find("checkpoint.safetensors"), std::string::npos) << run.err;
  const reports::Result result = result_in(out);
  EXPECT_EQ(result.exit.code, 74);
  EXPECT_EQ(result.exit.status, "cannot write");
  EXPECT_NE(run.err.find(result.exit.reasons.at(0)), std::string::npos);
  EXPECT_EQ(result.samples.loss.size(), 4U);
  EXPECT_EQ(result.quality.evaluations.size(), 1U);
  const Finished check = run_noisemark({"check", out.string()});
  EXPECT_EQ(check.code, 0) << check.both();
}

TEST(Failure, that_leaves_no_room_for_a_result_is_told_before_that) {
  const TemporaryFolder folder;
  const Finished run = run_noisemark_after(
      kDiskOf4Kib, with(timed_only(folder.path() / "out"), {"--checkpoint-every", "4"}));
  EXPECT_EQ(run.code, 74) << run.both();
  EXPECT_NE(run.err.find("checkpoint.safetensors"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("no result was written"), std::string::npos) << run.err;
}

TEST(Failure, to_write_the_report_leaves_a_result_that_says_so) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(timed_only(out, 60)));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "run_start"));
  fs::create_directories(out / "report.md" / "in the way");
  const Finished finished = process.wait();
  EXPECT_EQ(finished.code, 74) << finished.both();
  EXPECT_NE(finished.err.find("report.md: cannot be written"), std::string::npos) << finished.err;
  const reports::Result result = result_in(out);
  EXPECT_EQ(result.exit.code, 74);
  EXPECT_EQ(result.exit.status, "cannot write");
  EXPECT_EQ(result.samples.loss.size(), 60U);
  EXPECT_FALSE(result.gates.empty()) << "it was judged before";
}

TEST(Failure, out_of_memory_in_training_names_owners_too) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished run = run_noisemark_after("ulimit -v 8388608",
                                           with(timed_only(out), {"--set", "train.batch=4096"}));
  EXPECT_EQ(run.code, 71) << run.both();
  EXPECT_EQ(result_in(out).exit.status, "out of memory");
  const std::string reason = result_in(out).exit.reasons.at(0);
  for (const char* owner : {"weights", "optimizer", "ema", "rest"}) {
    EXPECT_NE(reason.find(owner), std::string::npos) << reason;
  }
}

TEST(Failure, out_of_memory_while_the_model_is_made_names_owners_in_any_pass) {
  const TemporaryFolder folder;
  // The weights take half a GiB and fit, the optimizer's two tensors beside each take 1 GiB more.
  const std::string limit = "ulimit -v " + std::to_string(test::address_space_kib() + 1'100'000);
  for (const bool memory_pass : {true, false}) {
    const fs::path out = folder.path() / (memory_pass ? "memory" : "training");
    const auto arguments = memory_pass ? short_run(out) : timed_only(out);
    const Finished run = run_noisemark_after(limit, with(arguments, {"--set", "model.dim=384"}));
    EXPECT_EQ(run.code, 71) << run.both();
    EXPECT_EQ(result_in(out).exit.status, "out of memory");
    const std::string reason = result_in(out).exit.reasons.at(0);
    EXPECT_NE(reason.find("while the model was made ready: weights "), std::string::npos) << reason;
    EXPECT_NE(reason.find(", optimizer "), std::string::npos) << reason;
    EXPECT_EQ(reason.find(", ema "), std::string::npos)
        << "it comes after the optimizer: " << reason;
    EXPECT_NE(run.err.find(reason), std::string::npos) << run.err;
  }
}

TEST(Resume, a_refused_checkpoint_is_found_before_anything_is_touched) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto arguments = with(timed_only(out, 100'000), {"--checkpoint-every", "2"});
  {
    Process process(noisemark_command(arguments));
    ASSERT_TRUE(test::wait_for_file(out / "checkpoint.safetensors"));
    process.signal(SIGKILL);
    (void)process.wait();
  }
  const std::string events = file_bytes(out / "events.mlog");

  const Finished other = run_noisemark(with(arguments, {"--resume", "--seed", "9"}));
  EXPECT_EQ(other.code, 3) << other.both();
  EXPECT_EQ(file_bytes(out / "events.mlog"), events);

  fs::resize_file(out / "checkpoint.safetensors", 100'000);
  const Finished damaged = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(damaged.code, 2) << damaged.both();
  EXPECT_EQ(file_bytes(out / "events.mlog"), events);
  EXPECT_FALSE(fs::exists(out / "result.json"));
}

TEST(Resume, leaves_a_finished_run_alone_and_ends_as_it_did) {
  const TemporaryFolder folder;
  for (const std::vector<std::string>& checkpoints :
       {std::vector<std::string>{}, std::vector<std::string>{"--checkpoint-every", "2"}}) {
    const fs::path out = folder.path() / ("out-" + std::to_string(checkpoints.size()));
    const auto arguments = with(timed_only(out), checkpoints);
    const Finished first = run_noisemark(arguments);
    ASSERT_EQ(first.code, 0) << first.both();
    const std::string result = file_bytes(out / "result.json");
    const std::string report = file_bytes(out / "report.md");
    fs::remove(out / "report.md");  // a kill before it was written leaves this

    const Finished again = run_noisemark(with(arguments, {"--resume"}));
    EXPECT_EQ(again.code, 0) << again.both();
    EXPECT_EQ(again.out, first.out);
    EXPECT_NE(again.err.find("finished"), std::string::npos) << again.err;
    EXPECT_EQ(file_bytes(out / "result.json"), result);
    EXPECT_EQ(file_bytes(out / "report.md"), report);

    const Finished other = run_noisemark(with(arguments, {"--resume", "--seed", "9"}));
    EXPECT_EQ(other.code, 3) << other.both();
    EXPECT_NE(other.err.find("result.json: variant: "), std::string::npos) << other.err;
    EXPECT_EQ(file_bytes(out / "result.json"), result);
  }
}

TEST(Resume, never_touches_a_folder_that_holds_no_run) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "report.md") << "years of work";
  const Finished run = run_noisemark(with(timed_only(folder.path()), {"--resume"}));
  EXPECT_EQ(run.code, 2) << run.both();
  EXPECT_EQ(file_bytes(folder.path() / "report.md"), "years of work");
  EXPECT_FALSE(fs::exists(folder.path() / "events.mlog"));
}

TEST(Resume, keeps_to_the_weights_that_the_run_began_with) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_noisemark(timed_only(folder.path() / "given", 1)).code, 0);
  ASSERT_EQ(run_noisemark(with(timed_only(folder.path() / "other", 1), {"--seed", "9"})).code, 0);
  const std::vector<std::string> given{"--init-weights",
                                       (folder.path() / "given" / "weights.safetensors").string()};
  const std::vector<std::string> other{"--init-weights",
                                       (folder.path() / "other" / "weights.safetensors").string()};
  const fs::path out = folder.path() / "out";
  const auto arguments = with(timed_only(out, 40), {"--checkpoint-every", "1"});
  {
    Process process(noisemark_command(with(arguments, given)));
    ASSERT_TRUE(test::wait_for_file(out / "checkpoint.safetensors"));
    process.signal(SIGKILL);
    (void)process.wait();
  }
  const Finished refused = run_noisemark(with(with(arguments, other), {"--resume"}));
  EXPECT_EQ(refused.code, 3) << refused.both();
  EXPECT_NE(refused.err.find("init_weights_sha256"), std::string::npos) << refused.err;

  const Finished resumed = run_noisemark(with(arguments, {"--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_GT(result_in(out).protocol.resumed_at_step, 0);
  EXPECT_EQ(result_in(out).provenance.init_weights_sha256,
            result_in(folder.path() / "given").determinism.weights_sha256);
}

TEST(Force, keeps_the_old_result_when_the_new_run_cannot_begin) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  const std::string before = result_in(out).run_id;
  const fs::path weights = folder.path() / "weights.safetensors";
  std::ofstream(weights) << "no weights";
  const Finished run =
      run_noisemark(with(timed_only(out), {"--force", "--init-weights", weights.string()}));
  EXPECT_EQ(run.code, 2) << run.both();
  EXPECT_EQ(result_in(out).run_id, before);
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
}

TEST(Force, keeps_the_old_result_when_the_new_run_fails_and_continues_that_one) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  const std::string before = result_in(out).run_id;
  const auto arguments = with(timed_only(out, 12), {"--checkpoint-every", "4"});
  const Finished failed = run_noisemark_after(kDiskOf512Kib, with(arguments, {"--force"}));
  EXPECT_EQ(failed.code, 74) << failed.both();
  EXPECT_NE(failed.err.find("keeps the earlier result"), std::string::npos) << failed.err;
  EXPECT_NE(failed.out.find("replacement/report.md"), std::string::npos) << failed.out;
  EXPECT_EQ(result_in(out).run_id, before);
  EXPECT_EQ(result_in(out / "replacement").exit.code, 74);
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);

  const Finished resumed = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_EQ(result_in(out).protocol.steps, 12);
  EXPECT_FALSE(fs::exists(out / "replacement"));
}

TEST(Force, keeps_the_old_result_when_the_new_run_leaves_the_finite_numbers) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  const std::string before = result_in(out).run_id;
  const auto arguments = with(timed_only(out), {"--set", "optimizer.lr=1e30"});
  const Finished failed = run_noisemark(with(arguments, {"--force"}));
  EXPECT_EQ(failed.code, 1) << failed.both();
  EXPECT_NE(failed.err.find("keeps the earlier result"), std::string::npos) << failed.err;
  EXPECT_NE(failed.out.find("replacement/report.md"), std::string::npos) << failed.out;
  EXPECT_EQ(result_in(out).run_id, before);
  EXPECT_EQ(result_in(out / "replacement").exit.status, "failed");
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);

  const Finished resumed = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(resumed.code, 1) << resumed.both();
  EXPECT_EQ(result_in(out).run_id, before);

  EXPECT_EQ(run_noisemark(with(timed_only(out), {"--force"})).code, 0);
  EXPECT_NE(result_in(out).run_id, before);
  EXPECT_FALSE(fs::exists(out / "replacement"));
}

TEST(Force, keeps_the_old_result_when_the_new_run_is_interrupted_and_continues_that_one) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  const std::string before = result_in(out).run_id;
  const auto arguments = with(timed_only(out, 40), {"--checkpoint-every", "1"});
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    fs::remove_all(out / "replacement");  // the checkpoint there becomes this run's
    Process process(noisemark_command(with(arguments, {"--force"})));
    ASSERT_TRUE(test::wait_for_file(out / "replacement" / "checkpoint.safetensors"));
    process.signal(signal);
    const Finished interrupted = process.wait();
    EXPECT_EQ(interrupted.code, 130) << interrupted.both();
    EXPECT_NE(interrupted.err.find("that of the run that was interrupted"), std::string::npos)
        << interrupted.err;
    EXPECT_NE(interrupted.out.find("replacement/report.md"), std::string::npos) << interrupted.out;
    EXPECT_EQ(result_in(out).run_id, before) << signal;
    EXPECT_EQ(result_in(out / "replacement").exit.status, "interrupted");
    EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
  }
  const Finished resumed = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_GT(result_in(out).protocol.resumed_at_step, 0);
  EXPECT_FALSE(fs::exists(out / "replacement"));
}

TEST(Force, keeps_a_result_that_cannot_be_read_until_the_new_run_has_ended) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto arguments = with(timed_only(out), {"--checkpoint-every", "4", "--force"});
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  std::ofstream(out / "result.json") << "{\"schema_version\": \"99.0.0\"}";
  const std::string before = file_bytes(out / "result.json");
  const Finished failed = run_noisemark_after(kDiskOf512Kib, arguments);
  EXPECT_EQ(failed.code, 74) << failed.both();
  EXPECT_EQ(file_bytes(out / "result.json"), before);
  EXPECT_EQ(run_noisemark(arguments).code, 0);
  EXPECT_EQ(result_in(out).exit.status, "custom");
  EXPECT_FALSE(fs::exists(out / "replacement"));
}

TEST(Force, replaces_a_result_that_failed_by_another_one) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto arguments = with(timed_only(out), {"--checkpoint-every", "4"});
  ASSERT_EQ(run_noisemark_after(kDiskOf512Kib, arguments).code, 74);
  const std::string before = result_in(out).run_id;
  EXPECT_EQ(run_noisemark_after(kDiskOf512Kib, with(arguments, {"--force"})).code, 74);
  EXPECT_NE(result_in(out).run_id, before);
  EXPECT_FALSE(fs::exists(out / "replacement"));
}

TEST(Force, a_killed_run_leaves_the_old_one_whole_and_can_be_continued_into_its_place) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_only(out)).code, 0);
  const std::string before = result_in(out).run_id;
  const auto arguments = with(timed_only(out, 40), {"--checkpoint-every", "3"});
  {
    Process process(noisemark_command(with(arguments, {"--force"})));
    ASSERT_TRUE(test::wait_for_file(out / "replacement" / "checkpoint.safetensors"));
    process.signal(SIGKILL);
    (void)process.wait();
  }
  EXPECT_EQ(result_in(out).run_id, before);
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);

  const Finished resumed = run_noisemark(with(arguments, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_GT(result_in(out).protocol.resumed_at_step, 0);
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
  EXPECT_FALSE(fs::exists(out / "replacement"));
}

TEST(Run, more_evaluation_samples_than_there_are_is_bad_input_before_anything_is_made) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished run = run_noisemark(with(short_run(out), {"--set", "eval.samples=1000000"}));
  EXPECT_EQ(run.code, 2) << run.both();
  EXPECT_EQ(
      run.err.find("noisemark: gmm16: eval.samples: 1000000, where the test split has 65536 "), 0U)
      << run.err;
  EXPECT_NE(run.err.find("--set eval.samples=65536)"), std::string::npos) << run.err;
  EXPECT_FALSE(fs::exists(out));
}

TEST(ProgressLine, tells_of_every_pass_on_a_terminal_and_of_nothing_elsewhere) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_noisemark(short_run(folder.path() / "quiet")).said(), "");
  Process process(noisemark_command(short_run(folder.path() / "out")), {},
                  Process::StandardError::kTerminal);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.code, 0) << finished.both();
  for (const char* part :
       {"gmm16@cpu none-plain-fp32: memory pass, step 1/", "profile pass, step 1/",
        "fastest matrix product", "evaluating", "step 6/6, "}) {
    EXPECT_NE(finished.err.find(part), std::string::npos) << part << "\n" << finished.err;
  }
  const size_t last = finished.err.find("step 6/6, ");
  ASSERT_NE(last, std::string::npos);
  const std::string line = finished.err.substr(last, finished.err.find('\r', last) - last);
  const std::regex figures(R"(step 6/6, \d+\.\d images/s, loss \d+\.\d{4}, 0 s left)");
  EXPECT_TRUE(std::regex_match(line, figures)) << line;
}

}  // namespace
}  // namespace noisemark::suite
