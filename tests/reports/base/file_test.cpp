#include "reports/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "reports/base/error.h"
#include "reports/base/folder.h"
#include "reports/base/sha256.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

TEST(FilesNamed, are_found_below_in_the_order_of_their_paths_and_links_are_not_followed) {
  const fs::path folder =
      fs::path(::testing::TempDir()) / "are_found_below_in_the_order_of_their_paths";
  fs::remove_all(folder);
  for (const char* below : {"b/c", "a", "b"}) {
    make_folder(folder / below);
    write_file_atomically(folder / below / "page.md", "");
  }
  write_file_atomically(folder / "a" / "other.md", "");
  fs::create_directory_symlink(folder / "b", folder / "link");
  fs::create_directory_symlink(folder / "loop", folder / "loop");
  EXPECT_EQ(files_named(folder, "page.md"),
            (std::vector{folder / "a/page.md", folder / "b/c/page.md", folder / "b/page.md"}));
  fs::remove_all(folder);
}

TEST(WriteFile, goes_through_what_is_no_regular_file_and_replaces_none) {
  const fs::path folder = fs::path(::testing::TempDir()) / "goes_through_what_is_no_regular_file";
  fs::remove_all(folder);
  make_folder(folder);

  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_file_atomically(pipe, "through");
  char bytes[16] = {};
  EXPECT_EQ(read(reader, bytes, sizeof bytes), 7);
  close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));  // which no program reads any more

  write_file_atomically(folder / "old", "old");
  fs::create_symlink("old", folder / "link");
  fs::create_symlink("new", folder / "dangling");
  fs::create_symlink("loop", folder / "loop");
  write_file_atomically(folder / "link", "behind");
  write_file_atomically(folder / "dangling", "made");
  EXPECT_EQ(read_file(folder / "old"), "behind");
  EXPECT_EQ(read_file(folder / "new"), "made");
  EXPECT_TRUE(fs::is_symlink(folder / "link") && fs::is_symlink(folder / "dangling"));

  for (const fs::path& refused : {pipe, folder / "loop", fs::path("/dev/full"), folder}) {
    try {
      write_file_atomically(refused, "x");
      ADD_FAILURE() << refused << " was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCannotWrite) << error.what();
    }
  }
  EXPECT_NO_THROW(write_file_atomically("/dev/null", "x"));
  EXPECT_TRUE(fs::is_character_file("/dev/null") && fs::is_character_file("/dev/full"));
  fs::remove_all(folder);
}

TEST(WriteFile, what_the_user_names_keeps_its_hard_links_and_what_a_folder_holds_leaves_them_old) {
  const ScratchFolder scratch("hard_links");
  const fs::path file = scratch.path() / "file";
  const fs::path other = scratch.path() / "other";
  write_named_file(file, "the old bytes");
  fs::create_hard_link(file, other);
  write_named_file(file, "new");
  EXPECT_EQ(read_file(file), "new");
  EXPECT_EQ(read_file(other), "new");
  write_named_file(other, "longer than before");
  EXPECT_EQ(read_file(file), "longer than before");
  write_file_atomically(file, "of a folder");
  EXPECT_EQ(read_file(file), "of a folder");
  EXPECT_EQ(read_file(other), "longer than before");
}

/// Opening a pipe for reading would wait for who writes into it.
TEST(WriteFile, keeps_who_may_read_the_file_that_it_replaces) {
  const ScratchFolder folder("file");
  const fs::path file = folder.path() / "file";
  write_file_atomically(file, "old");
  for (const mode_t mode : {0640U, 0600U, 0666U}) {
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    write_file_atomically(file, "new");
    struct stat status {};
    ASSERT_EQ(stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, mode);
  }
}

TEST(OpenFile, waits_for_no_pipe_and_reads_no_device) {
  const ScratchFolder scratch("pipe");
  const fs::path pipe = scratch.path() / "definition.toml";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto refusal = [](const fs::path& path) -> std::string {
    try {
      (void)read_file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
    return "read";
  };
  EXPECT_EQ(refusal(pipe), pipe.string() + ": cannot be read: a pipe (a file)");
  EXPECT_EQ(refusal("/dev/zero"), "/dev/zero: cannot be read: a device (a file)");
  EXPECT_EQ(refusal(scratch.path()),
            scratch.path().string() + ": cannot be read: a folder (a file)");
  EXPECT_THROW((void)sha256_of_file(pipe), Error);
}

TEST(ReadFolder, names_a_folder_that_cannot_be_read) {
  const fs::path missing = fs::path(::testing::TempDir()) / "names_a_folder_that_cannot_be_read";
  try {
    (void)read_folder(missing);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_EQ(std::string(error.what()).find(missing.string() + ": cannot be read: "), 0U);
  }
}

}  // namespace
}  // namespace noisemark::reports
