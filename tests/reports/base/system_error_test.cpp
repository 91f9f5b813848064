#include "reports/base/error.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "reports/base/file.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

Error told(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::system_error& error) {
    return error_of(error);
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ExitCode::kPass, ""};
}

/// A loop of links, a name that is too long, and a file in the place of a folder.
class ForbiddenPaths : public testing::Test {
 protected:
  ForbiddenPaths()
      : folder_(fs::path(testing::TempDir()) / ("noisemark_paths_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::create_symlink(folder_ / "loop", folder_ / "loop");
    std::ofstream(folder_ / "file") << "x";
  }
  ~ForbiddenPaths() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(ForbiddenPaths, that_were_looked_at_are_bad_input_with_path_and_cause) {
  const Error loop = told([&] { (void)fs::exists(folder_ / "loop" / "x"); });
  EXPECT_EQ(loop.code(), ExitCode::kBadInput);
  EXPECT_EQ(loop.what(), (folder_ / "loop" / "x").string() +
                             ": cannot be read: Too many levels of symbolic links");
  const Error longest = told([&] { (void)fs::is_directory(folder_ / std::string(300, 'a')); });
  EXPECT_EQ(longest.code(), ExitCode::kBadInput);
  EXPECT_NE(std::string(longest.what()).find("File name too long"), std::string::npos);
  EXPECT_EQ(told([&] { (void)fs::directory_iterator(folder_ / "none"); }).code(),
            ExitCode::kBadInput);
}

TEST_F(ForbiddenPaths, that_were_written_cannot_be_written) {
  for (const std::function<void()>& action : std::vector<std::function<void()>>{
           [&] { fs::create_directories(folder_ / "file" / "x"); },
           [&] { fs::rename(folder_ / "none", folder_ / "some"); },
           [&] { fs::remove(folder_ / std::string(300, 'a')); },
           [&] { fs::resize_file(folder_ / "none", 1); },
           [&] { fs::copy_file(folder_ / "file", folder_ / "none" / "x"); }}) {
    const Error error = told(action);
    EXPECT_EQ(error.code(), ExitCode::kCannotWrite) << error.what();
    EXPECT_NE(std::string(error.what()).find(folder_.string()), std::string::npos) << error.what();
  }
}

TEST(SystemError, has_the_exit_code_of_its_cause) {
  const auto code_of = [](int cause) {
    return error_of(std::system_error(cause, std::generic_category(), "thread")).code();
  };
  EXPECT_EQ(code_of(EAGAIN), ExitCode::kOutOfMemory) << "no more threads";
  EXPECT_EQ(code_of(ENOMEM), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_of(EMFILE), ExitCode::kOutOfMemory) << "no more open files";
  EXPECT_EQ(code_of(ENFILE), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_of(ENOSPC), ExitCode::kCannotWrite);
  EXPECT_EQ(code_of(EDQUOT), ExitCode::kCannotWrite);
  EXPECT_EQ(code_of(EFBIG), ExitCode::kCannotWrite);
  EXPECT_EQ(code_of(EPERM), ExitCode::kInternal) << "of no path: the program's own mistake";
}

TEST(WriteFile, that_lacks_open_files_is_no_file_that_cannot_be_written) {
  EXPECT_EQ(not_written("a/b", EMFILE).code(), ExitCode::kOutOfMemory);
  const Error full = not_written("a/b", ENOSPC);
  EXPECT_EQ(full.code(), ExitCode::kCannotWrite);
  EXPECT_STREQ(full.what(), "a/b: cannot be written: No space left on device");
  EXPECT_EQ(not_written("a/b", EACCES).code(), ExitCode::kCannotWrite);
  const std::filesystem::path there = std::filesystem::path(testing::TempDir()) / "file";
  EXPECT_EQ(not_written(there, ENOENT).what(),
            there.string() +
                ": cannot be written: its folder takes nothing new (No such file or directory)");
}

TEST(ReadFile, names_a_file_whose_bytes_cannot_be_read) {
  // The first page of a process is mapped nowhere.
  const fs::path unreadable = "/proc/self/mem";
  try {
    (void)read_file(unreadable);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCannotRead);
    EXPECT_STREQ(error.what(), "/proc/self/mem: cannot be read: Input/output error");
  }
}

}  // namespace
}  // namespace noisemark::reports
