#include "suite/run/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "suite/config/catalogue.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

std::string given_to_child(const RunOptions& options) {
  return child_arguments(options, plan_runs(options).back(), "out").at(1);
}

TEST(ChildRun, is_given_the_benchmark_of_a_suite_at_its_scale) {
  RunOptions options;
  options.device = "cpu";
  options.id = "smoke";
  EXPECT_EQ(given_to_child(options), "gmm16-ho-relu@cpu");
}

TEST(ChildRun, of_a_suite_is_profiled_under_mode_none_alone) {
  RunOptions options;
  options.device = "cpu";
  const auto profiled = [&options](const std::string& mode) {
    options.modes = {mode};
    const auto arguments = child_arguments(options, plan_runs(options).front(), "out");
    return std::find(arguments.begin(), arguments.end(), "--no-profile") == arguments.end();
  };
  options.id = "smoke";
  EXPECT_TRUE(profiled("none"));
  EXPECT_FALSE(profiled("echo"));
  options.id = "gmm16-ho@cpu";
  EXPECT_TRUE(profiled("echo"));
}

TEST(ChildRun, looks_for_the_largest_batch_where_its_parent_was_told_to) {
  RunOptions options;
  options.device = "cpu";
  options.id = "gmm16-ho@cpu";
  const auto given = [&options] {
    const auto arguments = child_arguments(options, plan_runs(options).front(), "out");
    const auto flag = std::find(arguments.begin(), arguments.end(), "--fit-memory");
    return flag == arguments.end() ? std::string() : *(flag + 1);
  };
  EXPECT_EQ(given(), "");
  options.fit_memory_bytes = 24 << 20;
  EXPECT_EQ(given(), "25165824");
}

TEST(ChildRun, is_given_the_definition_file_as_it_was_typed) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "mine.toml";
  std::ofstream(file) << benchmark_files().front().text;
  RunOptions options;
  options.device = "cpu";
  options.id = file.string();
  EXPECT_EQ(given_to_child(options), file.string());
  options.id += "@gpu";
  EXPECT_EQ(given_to_child(options), file.string() + "@gpu");
}

TEST(ChildRun, has_the_environment_of_its_parent_with_what_was_set_for_it) {
  setenv("NOISEMARK_TEST_CHILD", "parent's", 1);
  setenv("NOISEMARK_TEST_CHILDREN", "parent's", 1);
  const auto given = environment_with({{"NOISEMARK_TEST_CHILD", "own"}, {"NOISEMARK_NEW", "a=b"}});
  unsetenv("NOISEMARK_TEST_CHILD");
  unsetenv("NOISEMARK_TEST_CHILDREN");
  const auto count = [&](const std::string& entry) {
    return std::count(given.begin(), given.end(), entry);
  };
  EXPECT_EQ(count("NOISEMARK_TEST_CHILD=own"), 1);
  EXPECT_EQ(count("NOISEMARK_TEST_CHILD=parent's"), 0);
  EXPECT_EQ(count("NOISEMARK_TEST_CHILDREN=parent's"), 1);
  EXPECT_EQ(count("NOISEMARK_NEW=a=b"), 1);
}

TEST(ChildRun, that_was_killed_is_told_from_one_that_the_kernel_ended_for_want_of_memory) {
  // Spells a status as waitpid() does on Linux: the signal in the low bits, the exit code above
  // them.
  const auto killed_by = [](int signal, bool ended_for_memory) {
    return end_of_child(signal, ended_for_memory);
  };
  EXPECT_EQ(killed_by(SIGKILL, true).code, ExitCode::kOutOfMemory);
  EXPECT_EQ(killed_by(SIGKILL, true).words,
            "a run ended by signal 9: the kernel ended it for want of memory");
  EXPECT_EQ(killed_by(SIGKILL, false).code, ExitCode::kInternal);
  EXPECT_EQ(killed_by(SIGKILL, false).words,
            "a run ended by signal 9; the kernel may have ended it for want of memory");
  EXPECT_EQ(killed_by(SIGSEGV, true).code, ExitCode::kInternal);
  EXPECT_EQ(killed_by(SIGSEGV, true).words, "a run ended by signal 11");
  EXPECT_EQ(killed_by(SIGINT, false).code, ExitCode::kInterrupted);
  EXPECT_EQ(end_of_child(71 << 8, false).code, ExitCode::kOutOfMemory);
  EXPECT_EQ(end_of_child(71 << 8, true).words, "") << "it has spoken for itself";
}

}  // namespace

}  // namespace noisemark::suite
