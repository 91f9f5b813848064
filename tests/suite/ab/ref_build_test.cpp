#include "suite/ab/ref_build.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "reports/error.h"
#include "reports/file.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// A repository of two commits whose CMake project makes a `noisemark` that says which it is.
class Repository {
 public:
  Repository() {
    run("git init -q .");
    commit("one", "configure_file(noisemark.in ${PROJECT_BINARY_DIR}/bin/noisemark @ONLY)");
    commit("two", "configure_file(noisemark.in ${PROJECT_BINARY_DIR}/bin/noisemark @ONLY)");
    commit("broken", "message(FATAL_ERROR \"it does not build\")");
  }

  [[nodiscard]] const fs::path& path() const { return folder_.path(); }

 private:
  void run(const std::string& words) const {
    const test::Finished done =
        test::Process({"/bin/sh", "-c", "cd " + path().string() + " && " + words}).wait();
    ASSERT_EQ(done.code, 0) << words << done.both();
  }

  void commit(const std::string& name, const std::string& line) const {
    std::ofstream(path() / "noisemark.in") << name << "\n";
    std::ofstream(path() / "CMakeLists.txt")
        << "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES NONE)\n"
        << line << "\nadd_custom_target(noisemark)\n";
    run("git add CMakeLists.txt noisemark.in && git -c user.name=t -c user.email=t@t commit -qm " +
        name + " && git tag " + name);
  }

  test::TemporaryFolder folder_;
};

std::string refusal(const std::string& revision, const fs::path& from) {
  try {
    (void)build_revision(revision, from, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "not refused";
}

TEST(RefBuild, builds_each_revision_in_a_worktree_of_its_own_and_only_once) {
  const Repository repository;
  const fs::path one = build_revision("one", repository.path(), {});
  const fs::path two = build_revision("two", repository.path(), {"-DWORD=1"});
  EXPECT_EQ(reports::read_file(one), "one\n");
  EXPECT_EQ(reports::read_file(two), "two\n");
  const auto made = fs::last_write_time(one);
  EXPECT_EQ(build_revision("HEAD~2", repository.path(), {}), one);
  EXPECT_EQ(fs::last_write_time(one), made);
  // The user's own tree stays as it was.
  EXPECT_EQ(reports::read_file(repository.path() / "noisemark.in"), "broken\n");
}

TEST(RefBuild, other_words_for_cmake_make_another_build) {
  const Repository repository;
  const fs::path plain = build_revision("one", repository.path(), {});
  const fs::path word = build_revision("one", repository.path(), {"-DWORD=1"});
  const fs::path words = build_revision("one", repository.path(), {"-DWORD=1", "-DMORE=1"});
  EXPECT_NE(plain, word);
  EXPECT_NE(word, words);
  for (const fs::path& program : {plain, word, words}) EXPECT_TRUE(fs::exists(program)) << program;
  EXPECT_NE(reports::read_file(word.parent_path().parent_path() / "CMakeCache.txt").find("WORD"),
            std::string::npos);
  EXPECT_EQ(build_revision("one", repository.path(), {"-DWORD=1"}), word);
}

TEST(RefBuild, what_was_deleted_is_made_again) {
  const Repository repository;
  const fs::path program = build_revision("one", repository.path(), {});
  fs::remove_all(repository.path() / "build");
  EXPECT_EQ(build_revision("one", repository.path(), {}), program);
  EXPECT_EQ(reports::read_file(program), "one\n");
  // As left by one that was stopped while git made it.
  fs::remove_all(repository.path() / "build");
  fs::create_directories(program.parent_path().parent_path());
  EXPECT_EQ(build_revision("one", repository.path(), {}), program);
  EXPECT_EQ(reports::read_file(program), "one\n");
}

TEST(RefBuild, what_does_not_build_is_named_with_its_log) {
  const Repository repository;
  const std::string words = refusal("broken", repository.path());
  EXPECT_EQ(words.find("ab: broken: does not build (see "), 0U) << words;
  const std::string log = words.substr(words.find("(see ") + 5);
  EXPECT_NE(reports::read_file(log.substr(0, log.size() - 1)).find("it does not build"),
            std::string::npos);
}

TEST(RefBuild, what_is_no_revision_or_no_repository_is_refused) {
  const Repository repository;
  EXPECT_EQ(refusal("nonexistent", repository.path()).find("ab: nonexistent (a revision of "), 0U);
  EXPECT_NE(refusal("--help", repository.path()), "not refused");
  const test::TemporaryFolder elsewhere;
  EXPECT_NE(refusal("HEAD", elsewhere.path()).find("is in no git repository"), std::string::npos);
}

}  // namespace
}  // namespace noisemark::suite
