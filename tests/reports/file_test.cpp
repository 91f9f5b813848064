#include "reports/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "reports/error.h"

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
