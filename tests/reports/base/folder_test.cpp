#include "reports/base/folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "reports/base/error.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  Folder()
      : folder_(fs::path(testing::TempDir()) / ("noisemark_folder_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~Folder() override { fs::remove_all(folder_); }

  fs::path folder_;
};

/// A process that holds the folder until it is killed.
pid_t start_holder(const fs::path& folder) {
  int held[2];
  EXPECT_EQ(pipe(held), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock(folder);
    (void)!write(held[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  EXPECT_EQ(read(held[0], &byte, 1), 1);
  close(held[0]);
  close(held[1]);
  return child;
}

TEST_F(Folder, is_held_by_one_process_and_given_back_when_that_is_killed) {
  const pid_t holder = start_holder(folder_);
  try {
    const FolderLock second(folder_);
    ADD_FAILURE() << "two at once";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("another process is writing there"),
              std::string::npos);
  }
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  { const FolderLock again(folder_); }
  EXPECT_TRUE(fs::is_empty(folder_)) << "the lock leaves no file";
}

std::string lock_refusal(const fs::path& folder) {
  try {
    const FolderLock lock(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "held";
}

TEST_F(Folder, is_made_where_it_is_missing_and_refused_where_a_file_has_its_name) {
  { const FolderLock lock(folder_ / "deep" / "er"); }
  EXPECT_TRUE(fs::is_directory(folder_ / "deep" / "er"));
  std::ofstream(folder_ / "file") << "x";
  EXPECT_EQ(lock_refusal(folder_ / "file"),
            (folder_ / "file").string() + ": is a file (a folder, or a free name)");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(lock_refusal(folder_ / "pipe"),
            (folder_ / "pipe").string() + ": is a pipe (a folder, or a free name)");
}

TEST(PortableName, has_nothing_that_a_store_of_files_refuses) {
  EXPECT_EQ(portable_name("budget:50%-plain-fp32"), "budget-50%-plain-fp32");
  EXPECT_EQ(portable_name("gmm16@cpu"), "gmm16@cpu");
  EXPECT_EQ(portable_name("a\"b*c<d>e?f|g\\h\ri"), "a-b-c-d-e-f-g-h-i");
}

}  // namespace
}  // namespace noisemark::reports
