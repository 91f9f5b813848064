#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "reports/base/folder.h"
#include "suite/run/folder/output_folder.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// Several processes and one folder, and what becomes of a run whose parent, terminal, disk or
/// output goes away.
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
using test::TemporaryFolder;
using test::timed_only;
using test::with;

constexpr const char* kBusy = "another process is writing there";

TEST(OneFolder, takes_one_run_at_a_time_whatever_else_was_asked_for) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(with(timed_only(out), {"--seed", "1"})).code, 0);
  Process first(noisemark_command(with(timed_only(out, 100'000), {"--seed", "2", "--force"})));
  ASSERT_TRUE(test::wait_for_file(out / "replacement" / "events.mlog", "run_start"));
  const std::vector<std::vector<std::string>> others = {
      with(timed_only(out), {"--seed", "3", "--force"}),
      with(timed_only(out), {"--seed", "1", "--resume"}),
      timed_only(out),
      {"report", out.string()},
      with(timed_only(out), {"--mode", "none", "--seeds", "2", "--force"})};
  for (const auto& other : others) {
    const Finished second = run_noisemark(other);
    EXPECT_EQ(second.code, 2) << other.front() << ": " << second.both();
    EXPECT_NE(second.err.find(kBusy), std::string::npos) << second.err;
  }
  EXPECT_EQ(result_in(out).seeds.base, 1U) << "nothing was touched";
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().code, 130);
  EXPECT_EQ(result_in(out).seeds.base, 1U) << "one that was interrupted replaces none that ended";
  EXPECT_EQ(result_in(out / "replacement").seeds.base, 2U);
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
}

TEST(OneFolder, of_baselines_is_promoted_into_by_one_process_at_a_time) {
  const TemporaryFolder folder;
  const reports::FolderLock lock(folder.path());
  const Finished promoted = run_noisemark(
      {"baseline", "promote", folder.path().string(), "--into", folder.path().string()});
  EXPECT_EQ(promoted.code, 2) << promoted.both();
  EXPECT_NE(promoted.err.find(kBusy), std::string::npos) << promoted.err;
}

TEST(OneFolder, holds_no_strangers_file_while_another_process_writes_its_own) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  ASSERT_EQ(run_noisemark(timed_only(run)).code, 0);
  const fs::path held = folder.path() / "held";
  const reports::FolderLock lock(held);
  fs::create_directory(held / "plots");
  std::ofstream(held / "plots" / "history_images_per_s.svg") << "<svg";  // it is not whole yet
  const Finished history = run_noisemark({"history", run, "--out", held.string()});
  EXPECT_EQ(history.code, 2) << history.both();
  EXPECT_NE(history.err.find(kBusy), std::string::npos) << history.err;
  EXPECT_EQ(history.err.find("--force"), std::string::npos) << history.err;
}

TEST(OneFolder, is_written_by_no_command_while_another_process_writes_there) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  ASSERT_EQ(run_noisemark(timed_only(run)).code, 0);
  const fs::path held = folder.path() / "held";
  const reports::FolderLock lock(held);
  const std::vector<std::vector<std::string>> commands = {
      {"run", "smoke", "--device", "cpu"},
      {"run", "gmm16@cpu", "--device", "cpu", "--mode", "none", "--mode", "echo"},
      {"run", "gmm16@cpu", "--device", "cpu", "--seeds", "2"},
      {"sweep", "gmm16@cpu", "--device", "cpu", "--axis", "seed=1,2"},
      {"predict", "gmm16@cpu", "--device", "cpu"},
      {"profile", "gmm16@cpu", "--device", "cpu"},
      {"plan", "gmm16@cpu", "--device", "cpu", "--budget", "1GiB"},
      {"sample", "gmm16@cpu", "--device", "cpu", "--weights", run, "--samples", "1"},
      {"quality", run},
      {"history", run},
      {"ab", "gmm16@cpu"},
      {"calibrate", "gmm16@cpu"},
      {"selftest"}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.end(), {"--out", held.string()});
    const Finished refused = run_noisemark(words);
    EXPECT_EQ(refused.code, 2) << words.front() << ": " << refused.both();
    EXPECT_NE(refused.err.find(kBusy), std::string::npos) << words.front() << ": " << refused.err;
    EXPECT_TRUE(fs::is_empty(held)) << words.front();
  }
}

TEST(OneFolder, of_a_killed_run_is_free_and_holds_no_lock) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  {
    Process killed(noisemark_command(timed_only(out, 100'000)));
    ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "run_start"));
    killed.signal(SIGKILL);
    (void)killed.wait();
  }
  for (const auto& entry : fs::directory_iterator(out)) {
    EXPECT_EQ(entry.path().filename().string().find("lock"), std::string::npos) << entry.path();
  }
  const Finished next = run_noisemark(with(timed_only(out), {"--force"}));
  EXPECT_EQ(next.code, 0) << next.both();
}

TEST(OneFolder, is_another_for_each_run_that_names_none) {
  const TemporaryFolder folder;
  const FreshFolder first(folder.path(), "budget:50%");
  const FreshFolder second(folder.path(), "budget:50%");
  EXPECT_EQ(first.path(), folder.path() / "budget-50%-1");
  EXPECT_EQ(second.path(), folder.path() / "budget-50%-2");
}

/// Processes whose command line names `text`.
int64_t processes_of(const std::string& text) {
  int64_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string words = file_bytes(entry.path() / "cmdline");
    if (words.find(text) != std::string::npos) ++count;
  }
  return count;
}

TEST(KilledSeries, leaves_no_child_behind) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process series(noisemark_command({"sweep", "gmm16@cpu", "--device", "cpu", "--out", out.string(),
                                    "--no-profile", "--no-memory", "--axis", "seed=1,2", "--set",
                                    "train.steps=100000"}));
  ASSERT_TRUE(test::wait_for_file(out / "seed=1" / "events.mlog", "run_start"));
  ASSERT_EQ(processes_of(out.string()), 2);
  series.signal(SIGKILL);
  EXPECT_EQ(series.wait().code, 128 + SIGKILL);
  for (int tries = 0; processes_of(out.string()) > 0 && tries < 100; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(processes_of(out.string()), 0);
}

TEST(Hangup, or_a_limit_or_its_warning_however_often_it_comes_keeps_the_result) {
  for (const int signal : {SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2}) {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "out";
    Process run(noisemark_command(timed_only(out, 100'000)));
    ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "run_start"));
    run.signal(signal);
    while (run.running()) {  // the end counts too
      run.signal(signal);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(run.wait().code, 130);
    EXPECT_EQ(result_in(out).exit.status, "interrupted");
  }
}

TEST(Hangup, stays_ignored_like_the_others_where_the_process_was_started_so) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process run(noisemark_command(timed_only(out, 40), "trap '' HUP QUIT USR1 USR2"));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "run_start"));
  for (const int signal : {SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) run.signal(signal);
  EXPECT_EQ(run.wait().code, 0);
}

TEST(Hangup, or_a_quit_from_the_keyboard_keeps_the_result) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process run(noisemark_command(timed_only(out, 100'000)));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "run_start"));
  run.signal(SIGQUIT);
  EXPECT_EQ(run.wait().code, 130);
  EXPECT_EQ(result_in(out).exit.status, "interrupted");
}

TEST(Hangup, of_a_series_is_told_to_its_run) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process series(noisemark_command({"sweep", "gmm16@cpu", "--device", "cpu", "--out", out.string(),
                                    "--no-profile", "--no-memory", "--axis", "seed=1,2", "--set",
                                    "train.steps=100000"}));
  ASSERT_TRUE(test::wait_for_file(out / "seed=1" / "events.mlog", "run_start"));
  series.signal(SIGHUP);
  EXPECT_EQ(series.wait().code, 130);
  EXPECT_EQ(result_in(out / "seed=1").exit.status, "interrupted");
}

TEST(FileSizeLimit, ends_a_run_with_a_cause_and_not_by_a_signal) {
  const TemporaryFolder folder;
  const Finished run = run_noisemark_after("ulimit -f 100", timed_only(folder.path() / "out"));
  EXPECT_EQ(run.code, 74) << run.both();
  EXPECT_NE(run.err.find("File too large"), std::string::npos) << run.err;
}

TEST(ClosedStreams, cost_no_result) {
  const TemporaryFolder folder;
  const auto ended = [&](const std::string& name, const std::string& redirection) {
    const fs::path out = folder.path() / name;
    const Finished run = run_noisemark_after("exec " + redirection, timed_only(out));
    EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0) << redirection;
    return run;
  };
  const Finished full = ended("full", ">/dev/full");
  EXPECT_EQ(full.code, 74) << full.both();
  EXPECT_NE(full.err.find("No space left on device; the result is in "), std::string::npos)
      << full.err;
  EXPECT_EQ(ended("out", ">&-").code, 74);
  EXPECT_EQ(ended("err", "2>&-").code, 0);
  EXPECT_EQ(ended("err_full", "2>/dev/full").code, 0);
}

TEST(ClosedStreams, are_told_once) {
  const TemporaryFolder folder;
  const Finished run = run_noisemark_after("exec >/dev/full", timed_only(folder.path() / "out"));
  EXPECT_EQ(run.err.find("cannot be written"), run.err.rfind("cannot be written")) << run.err;
}

TEST(Session, takes_lines_that_end_as_those_of_windows) {
  const TemporaryFolder folder;
  const fs::path input = folder.path() / "input";
  std::ofstream(input) << "quit\r\n";
  const Finished paced = run_noisemark_after(
      "exec <" + input.string(), {"pace", "gmm16@cpu", "--device", "cpu", "--threads", "1"});
  EXPECT_EQ(paced.code, 0) << paced.both();
}

TEST(ClosedStreams, end_a_session_that_answers_there) {
  const Finished paced = run_noisemark_after(
      "exec >/dev/full", {"pace", "gmm16@cpu", "--device", "cpu", "--threads", "1"});
  EXPECT_EQ(paced.code, 74) << paced.both();
  EXPECT_NE(paced.err.find("standard output"), std::string::npos) << paced.err;
}

TEST(Folders, that_cannot_be_had_are_named_with_the_cause) {
  const TemporaryFolder folder;
  const fs::path link = folder.path() / "link";
  fs::create_symlink("nowhere", link);
  const Finished dangling = run_noisemark(timed_only(link));
  EXPECT_EQ(dangling.code, 2) << dangling.both();
  EXPECT_NE(dangling.err.find("is a link to nothing"), std::string::npos) << dangling.err;
  const Finished temporary = run_noisemark({"selftest"}, {{"TMPDIR", "/nowhere"}});
  EXPECT_EQ(temporary.code, 2) << temporary.both();
  EXPECT_NE(temporary.err.find("TMPDIR"), std::string::npos) << temporary.err;
}

TEST(ReportsOfFolders, that_cannot_be_written_is_74_and_the_others_are) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(run_noisemark(timed_only(folder.path() / name)).code, 0);
  }
  fs::remove(folder.path() / "a" / "report.md");
  fs::create_directories(folder.path() / "a" / "report.md" / "in the way");
  fs::remove(folder.path() / "b" / "report.md");
  const Finished report = run_noisemark({"report", folder.path().string()});
  EXPECT_EQ(report.code, 74) << report.both();
  EXPECT_NE(report.err.find("cannot be written"), std::string::npos) << report.err;
  EXPECT_TRUE(fs::is_regular_file(folder.path() / "b" / "report.md"));
}

TEST(ClosedStreams, take_no_run_with_them_that_has_something_to_say) {
  const TemporaryFolder folder;
  const Finished run = run_noisemark_after("exec 2>/dev/full",
                                           with(timed_only(folder.path() / "out"), {"--resume"}));
  EXPECT_EQ(run.code, 0) << run.both();
}

TEST(Threads, that_cannot_be_had_are_out_of_memory) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become a user without other processes";
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::all);
  std::vector<std::string> command = {"/usr/bin/env", "prlimit", "--nproc=3",
                                      "setpriv",      "--reuid", "54322",
                                      "--regid",      "54322",   "--clear-groups"};
  const std::vector<std::string> arguments =
      with(timed_only(folder.path() / "out"), {"--threads", "1", "--loader-threads", "8"});
  const std::vector<std::string> own = noisemark_command(arguments);
  command.insert(command.end(), own.begin(), own.end());
  const Finished run = Process(command).wait();
  EXPECT_EQ(run.code, 71) << run.both();
  EXPECT_NE(run.err.find("threads"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace noisemark::suite
