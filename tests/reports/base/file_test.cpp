#include "reports/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "reports/base/error.h"
#include "reports/base/folder.h"
#include "reports/base/sha256.h"
#include "tests/reports/plain_user.h"

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
  EXPECT_TRUE(fs::is_fifo(pipe));  // no program reads it any more

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

TEST(WriteFile, keeps_whose_the_file_is_that_it_replaces) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  const ScratchFolder folder("owner");
  const fs::path file = folder.path() / "file";
  write_file_atomically(file, "old");
  ASSERT_EQ(chown(file.c_str(), 12345, 54321), 0);
  write_file_atomically(file, "new");
  struct stat status {};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 12345U);
  EXPECT_EQ(status.st_gid, 54321U);
  EXPECT_EQ(read_file(file), "new");
}

TEST(WriteFile, takes_every_name_that_the_file_system_takes) {
  const ScratchFolder folder("long");
  for (const size_t length : {200U, 245U, 250U, 255U}) {
    const fs::path file = folder.path() / std::string(length, 'n');
    write_file_atomically(file, "whole");
    EXPECT_EQ(read_file(file), "whole");
  }
  EXPECT_THROW(write_file_atomically(folder.path() / std::string(256, 'n'), ""), Error);
  EXPECT_EQ(read_folder(folder.path()).size(), 4U) << "no temporary file is left";
}

TEST(WriteFile, writes_into_a_file_that_its_folder_does_not_let_go) {
  if (geteuid() != 0) GTEST_SKIP() << "two users are needed";
  const ScratchFolder folder("kept");
  const fs::path closed = folder.path() / "closed";
  const fs::path shared = folder.path() / "shared";
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  for (const fs::path& place : {closed, shared}) {
    make_folder(place);
    write_file_atomically(place / "file", "the old bytes");
    ASSERT_EQ(chmod((place / "file").c_str(), 0666), 0);
  }
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  const test::PlainUserGuard plain_user;
  for (const fs::path& place : {closed, shared}) {
    write_file_atomically(place / "file", "new");
    EXPECT_EQ(read_file(place / "file"), "new");
    EXPECT_EQ(read_folder(place).size(), 1U) << "no temporary file is left";
  }
  EXPECT_THROW(write_file_atomically(closed / "other", ""), Error);
}

/// Runs `action` in a process that may mount; false where no process may.
bool ends_well_where_it_may_mount(const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0) _exit(2);
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(2);
    try {
      action();
    } catch (const Error&) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1);
  return WEXITSTATUS(status) == 0;
}

TEST(WriteFile, writes_into_a_file_that_is_a_mount_point) {
  const ScratchFolder folder("mounted");
  const fs::path outside = folder.path() / "outside";
  const fs::path file = folder.path() / "file";
  write_file_atomically(outside, "the old bytes");
  write_file_atomically(file, "");
  const bool ran = ends_well_where_it_may_mount([&] {
    if (mount(outside.c_str(), file.c_str(), nullptr, MS_BIND, nullptr) != 0) _exit(2);
    write_file_atomically(file, "new");
  });
  if (!ran) GTEST_SKIP() << "this user may mount nothing";
  EXPECT_EQ(read_file(outside), "new");
  EXPECT_EQ(read_folder(folder.path()).size(), 2U) << "no temporary file is left";
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
  const fs::path link = scratch.path() / "link";
  fs::create_symlink("nowhere", link);
  EXPECT_EQ(refusal(link), link.string() + ": cannot be read: a link to nothing (a file)");
}

TEST(WriteNamedFile, says_that_a_socket_and_the_name_of_a_folder_are_no_place_for_it) {
  const ScratchFolder scratch("socket");
  const auto refusal = [](const std::string& path) -> std::string {
    try {
      write_named_file(path, "text");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
    return "written";
  };
  const std::string folder = (scratch.path() / "new").string() + "/";
  EXPECT_EQ(refusal(folder), folder + ": a folder (a file, there or not)");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string socket_file = (scratch.path() / "socket").string();
  ASSERT_LT(socket_file.size(), sizeof address.sun_path);
  socket_file.copy(&address.sun_path[0], socket_file.size());
  const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(refusal(socket_file),
            socket_file + ": cannot be written: a socket (a file, a pipe or a character device)");
  close(descriptor);
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
