#include "suite/run/output_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "reports/error.h"
#include "tests/suite/run/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

ExitCode code_of(const fs::path& path, ExistingRun existing) {
  try {
    (void)prepare_output_folder(path, existing);
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kPass;
}

TEST(OutputFolder, takes_a_new_or_an_empty_folder) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(code_of(folder.path(), ExistingRun::kRefuse), ExitCode::kPass);
  EXPECT_EQ(code_of(folder.path() / "new" / "deep", ExistingRun::kRefuse), ExitCode::kPass);
}

TEST(OutputFolder, replaces_only_files_of_a_run) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "result.json") << "{}";
  std::ofstream(folder.path() / "notes.txt") << "mine";
  EXPECT_EQ(code_of(folder.path(), ExistingRun::kRefuse), ExitCode::kBadInput);
  EXPECT_EQ(code_of(folder.path(), ExistingRun::kReplace), ExitCode::kPass);
  EXPECT_FALSE(fs::exists(folder.path() / "result.json"));
  EXPECT_TRUE(fs::exists(folder.path() / "notes.txt"));
}

TEST(OutputFolder, does_not_resume_a_finished_run_without_a_checkpoint) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(code_of(folder.path(), ExistingRun::kResume), ExitCode::kPass);
  std::ofstream(folder.path() / "result.json") << "{}";
  EXPECT_EQ(code_of(folder.path(), ExistingRun::kResume), ExitCode::kBadInput);
}

TEST(OutputFolder, of_several_runs_is_new_or_empty_unless_what_is_there_may_stay) {
  const test::TemporaryFolder folder;
  EXPECT_NO_THROW(prepare_suite_folder(folder.path(), /*existing=*/false));
  std::ofstream(folder.path() / "report.md") << "of a single run";
  EXPECT_THROW(prepare_suite_folder(folder.path(), /*existing=*/false), Error);
  EXPECT_NO_THROW(prepare_suite_folder(folder.path(), /*existing=*/true));
  EXPECT_TRUE(fs::exists(folder.path() / "report.md"));
}

TEST(OutputFolder, one_that_cannot_be_made_is_a_write_error) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "";
  EXPECT_EQ(code_of(folder.path() / "file" / "out", ExistingRun::kRefuse), ExitCode::kCannotWrite);
}

}  // namespace
}  // namespace noisemark::suite
