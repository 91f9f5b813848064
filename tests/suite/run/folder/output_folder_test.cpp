#include "suite/run/folder/output_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <fstream>

#include "reports/base/error.h"
#include "reports/render/run_folder.h"
#include "tests/reports/plain_user.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

ExitCode prepared(const fs::path& path, ExistingRun existing) {
  return test::outcome([&] { (void)prepare_output_folder(path, existing); }).first;
}

TEST(OutputFolder, takes_a_new_or_an_empty_folder) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(prepared(folder.path(), ExistingRun::kRefuse), ExitCode::kPass);
  EXPECT_EQ(prepared(folder.path() / "new" / "deep", ExistingRun::kRefuse), ExitCode::kPass);
}

TEST(OutputFolder, a_fresh_one_has_the_first_number_that_is_free) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(FreshFolder(folder.path(), "a").path(), folder.path() / "a-1");
  EXPECT_TRUE(fs::is_empty(folder.path())) << "it goes where nothing was written into it";
  fs::create_directory(folder.path() / "a-1");
  const FreshFolder second(folder.path(), "a");
  EXPECT_EQ(second.path(), folder.path() / "a-2");
  std::ofstream(second.path() / "result.json") << "{}";
}

TEST(OutputFolder, replaces_only_files_of_a_run) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "result.json") << "{}";
  std::ofstream(folder.path() / "notes.txt") << "mine";
  EXPECT_EQ(prepared(folder.path(), ExistingRun::kRefuse), ExitCode::kBadInput);
  const OutputFolder output = prepare_output_folder(folder.path(), ExistingRun::kReplace);
  EXPECT_TRUE(fs::exists(folder.path() / "result.json")) << "until there is another";
  std::ofstream(output.path / "result.json") << "{\"new\": 1}";
  put_in_place(output);
  EXPECT_EQ(fs::file_size(folder.path() / "result.json"), 10U);
  EXPECT_FALSE(fs::exists(output.path));
  EXPECT_TRUE(fs::exists(folder.path() / "notes.txt"));
}

TEST(OutputFolder, completes_a_replacement_that_was_killed_while_the_old_files_went) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path();
  fs::create_directory(path / "replacing");
  std::ofstream(path / "weights.safetensors") << "old";
  std::ofstream(path / "replacing" / "result.json") << "new";
  EXPECT_EQ(prepared(path, ExistingRun::kReplace), ExitCode::kPass);
  EXPECT_TRUE(fs::exists(path / "result.json"));
  EXPECT_FALSE(fs::exists(path / "weights.safetensors"));
  EXPECT_FALSE(fs::exists(path / "replacing"));
}

TEST(OutputFolder, is_not_taken_by_a_replacement_that_nobody_put_in_place) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path();
  std::ofstream(path / "result.json") << "old";
  const OutputFolder failed = prepare_output_folder(path, ExistingRun::kReplace);
  std::ofstream(failed.path / "result.json") << "of a run that failed";
  EXPECT_EQ(prepared(path, ExistingRun::kResume), ExitCode::kPass);
  EXPECT_EQ(prepared(path, ExistingRun::kReplace), ExitCode::kPass);
  EXPECT_EQ(fs::file_size(path / "result.json"), 3U);
  EXPECT_TRUE(fs::is_empty(failed.path)) << "--force begins it anew";
}

TEST(OutputFolder, completes_a_replacement_that_was_killed_while_its_files_came) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path();
  fs::create_directory(path / "arriving");
  std::ofstream(path / "events.mlog") << "new, has arrived";
  std::ofstream(path / "arriving" / "result.json") << "new";
  EXPECT_EQ(prepared(path, ExistingRun::kRefuse), ExitCode::kBadInput);
  EXPECT_EQ(prepare_output_folder(path, ExistingRun::kReplace).path, path / "replacement");
  EXPECT_TRUE(fs::exists(path / "result.json"));
  EXPECT_TRUE(fs::exists(path / "events.mlog"));
  EXPECT_FALSE(fs::exists(path / "arriving"));
}

TEST(OutputFolder, never_shows_the_old_files_of_a_run_beside_the_new_result) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path();
  for (const char* name : {"result.json", "checkpoint.safetensors", "report.md", "report.html"}) {
    std::ofstream(path / name) << "old";
  }
  const OutputFolder output = prepare_output_folder(path, ExistingRun::kReplace);
  std::ofstream(output.path / "result.json") << "new";
  put_in_place(output);
  EXPECT_FALSE(fs::exists(path / "checkpoint.safetensors"));
  EXPECT_FALSE(fs::exists(path / "report.md"));
  EXPECT_FALSE(fs::exists(path / "report.html"));
}

TEST(OutputFolder, is_resumed_only_where_a_run_began) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path();
  EXPECT_EQ(prepared(path, ExistingRun::kResume), ExitCode::kPass);
  for (const char* name : {"thesis.tex", "report.md", "result.json"}) {
    std::ofstream(path / name) << "{}";
    EXPECT_EQ(prepared(path, ExistingRun::kResume), ExitCode::kBadInput) << name;
  }
  std::ofstream(path / "events.mlog") << "";
  EXPECT_EQ(prepared(path, ExistingRun::kResume), ExitCode::kPass);
}

TEST(OutputFolder, names_that_users_choose_too_are_not_taken_for_a_run) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path();
  std::ofstream(path / "report.md") << "mine";
  for (const char* name : {"plots", "replacement", "replacing", "arriving"}) {
    fs::create_directory(path / name);
    std::ofstream(path / name / "report.md") << "mine";
  }
  for (const auto existing : {ExistingRun::kReplace, ExistingRun::kResume}) {
    EXPECT_EQ(prepared(path, existing), ExitCode::kBadInput);
  }
  for (const char* name : {"plots", "replacement", "replacing", "arriving"}) {
    EXPECT_TRUE(fs::exists(path / name / "report.md")) << name;
  }
}

/// A number that no process has: one that had it was waited for.
pid_t ended_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST(OutputFolder, loses_what_killed_runs_left_half_written_and_nothing_else) {
  const test::TemporaryFolder folder;
  const std::string dead = ".tmp-" + std::to_string(ended_process());
  std::ofstream(folder.path() / ("events.mlog" + dead)) << "a run killed at its very beginning";
  EXPECT_EQ(prepared(folder.path(), ExistingRun::kRefuse), ExitCode::kPass);
  EXPECT_TRUE(fs::is_empty(folder.path()));

  const std::vector<std::string> kept{"events.mlog", "notes.txt" + dead, "report.md.tmp-mine",
                                      "weights.safetensors.tmp-" + std::to_string(getppid())};
  const std::vector<std::string> lost{"checkpoint.safetensors" + dead, "result.json" + dead,
                                      "plots/loss.svg" + dead,
                                      "report.md.tmp-" + std::to_string(getpid())};
  fs::create_directory(folder.path() / "plots");
  for (const auto* names : {&kept, &lost}) {
    for (const std::string& name : *names) std::ofstream(folder.path() / name) << "half";
  }
  EXPECT_EQ(prepared(folder.path(), ExistingRun::kResume), ExitCode::kPass);
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(folder.path() / name)) << name;
  for (const std::string& name : lost) EXPECT_FALSE(fs::exists(folder.path() / name)) << name;
}

TEST(OutputFolder, of_several_runs_is_new_or_empty_unless_a_suite_that_is_there_may_stay) {
  const test::TemporaryFolder folder;
  EXPECT_NO_THROW(prepare_suite_folder(folder.path(), /*existing=*/false));
  std::ofstream(folder.path() / "report.md") << "of a single run";
  EXPECT_THROW(prepare_suite_folder(folder.path(), /*existing=*/false), Error);
  EXPECT_THROW(prepare_suite_folder(folder.path(), /*existing=*/true), Error);
  reports::write_suite(folder.path(), {"smoke", {}, {}});
  EXPECT_THROW(prepare_suite_folder(folder.path(), /*existing=*/false), Error);
  std::ofstream(folder.path() / "report.html") << "of earlier runs";
  EXPECT_NO_THROW(prepare_suite_folder(folder.path(), /*existing=*/true));
  EXPECT_TRUE(fs::exists(folder.path() / "report.md"));
  EXPECT_FALSE(fs::exists(folder.path() / "report.html"));
}

TEST(OutputFolder, one_that_cannot_be_made_is_a_write_error) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "";
  EXPECT_EQ(prepared(folder.path() / "file" / "out", ExistingRun::kRefuse), ExitCode::kCannotWrite);
}

TEST(OutputFolder, that_takes_no_replacement_says_so_with_the_place_and_the_cause) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "result.json") << "{}";
  fs::permissions(folder.path(), fs::perms(0555));
  const reports::test::PlainUserGuard guard;
  const auto [code, words] =
      test::outcome([&] { (void)prepare_output_folder(folder.path(), ExistingRun::kReplace); });
  EXPECT_EQ(code, ExitCode::kCannotWrite);
  EXPECT_EQ(words,
            (folder.path() / "replacement").string() + ": cannot be written: Permission denied");
}

TEST(VerdictText, calls_a_loss_before_training_that_of_the_start_and_no_result) {
  reports::Result result;
  result.exit.status = "interrupted";
  result.metrics.resize(2);
  result.metrics[0].name = "val_loss";
  result.metrics[1].name = "val_loss_initial";
  result.metrics[1].value = 1.5;
  const std::string early = verdict_text(result, "out");
  EXPECT_NE(early.find(": validation loss at the start 1.5\n"), std::string::npos) << early;
  result.metrics[0].value = 0.25;
  const std::string whole = verdict_text(result, "out");
  EXPECT_NE(whole.find(": validation loss 0.25 (at the start 1.5)\n"), std::string::npos) << whole;
}

}  // namespace

}  // namespace noisemark::suite
