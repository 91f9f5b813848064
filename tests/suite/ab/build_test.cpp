#include "suite/ab/build.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "reports/base/error.h"
#include "reports/base/file.h"
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

  void run(const std::string& words) const {
    const test::Finished done =
        test::Process({"/bin/sh", "-c", "cd " + path().string() + " && " + words}).wait();
    ASSERT_EQ(done.code, 0) << words << done.both();
  }

 private:
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
  // One that was stopped while git made it left this.
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
  const std::string unknown = refusal("nonexistent", repository.path());
  EXPECT_EQ(unknown.find("ab: nonexistent: git says: fatal: bad revision"), 0U) << unknown;
  EXPECT_NE(unknown.find("(a revision of "), std::string::npos) << unknown;
  EXPECT_NE(refusal("--help", repository.path()), "not refused");
  repository.run("git clone -q --depth 1 file://$PWD shallow");
  const std::string cut_off = refusal("HEAD~2", repository.path() / "shallow");
  EXPECT_NE(cut_off.find("/shallow, a shallow clone: git fetch --unshallow brings the others)"),
            std::string::npos)
      << cut_off;
  repository.run("git rm -qf CMakeLists.txt && git -c user.name=t -c user.email=t@t commit -qm n");
  const std::string another = refusal("HEAD", repository.path());
  EXPECT_EQ(another.find("ab: HEAD: has no CMakeLists.txt in "), 0U) << another;
  const test::TemporaryFolder elsewhere;
  const std::string words = refusal("HEAD", elsewhere.path());
  EXPECT_NE(words.find("git says: fatal: not a git repository"), std::string::npos) << words;
  EXPECT_NE(words.find(" (a clone of Noisemark as the working folder, or programs: --a and --b)"),
            std::string::npos)
      << words;
}

TEST(RefBuild, of_a_repository_that_has_lost_its_objects_says_what_git_says) {
  const Repository repository;
  fs::remove_all(repository.path() / ".git" / "objects");
  fs::create_directory(repository.path() / ".git" / "objects");
  const std::string words = refusal("HEAD", repository.path());
  EXPECT_NE(words.find("git says: fatal: bad object"), std::string::npos) << words;
}

TEST(RefBuild, of_a_git_that_says_nothing_tells_how_that_ended) {
  const Repository repository;
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "git") << "#!/bin/sh\nexit 3\n";
  fs::permissions(folder.path() / "git", fs::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  const std::string words = refusal("HEAD", repository.path());
  setenv("PATH", path.c_str(), 1);
  EXPECT_NE(words.find("git ended with 3 and said nothing"), std::string::npos) << words;
}

TEST(RefBuild, of_a_git_that_may_not_be_started_says_so) {
  const Repository repository;
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "git") << "#!/bin/sh\nexit 3\n";  // nobody may execute it
  const std::string path = std::getenv("PATH");
  setenv("PATH", folder.path().c_str(), 1);
  const std::string words = refusal("HEAD", repository.path());
  setenv("PATH", path.c_str(), 1);
  EXPECT_NE(words.find("git: cannot be started: Permission denied (a program)"), std::string::npos)
      << words;
}

std::string refusal_of(const std::string& program) {
  try {
    require_noisemark("A (it)", program);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "taken";
}

TEST(Program, that_is_no_noisemark_is_refused_in_the_words_of_the_system_or_its_own) {
  const test::TemporaryFolder folder;
  const auto program = [&](const std::string& text) {
    const fs::path file = folder.path() / "program";
    std::ofstream(file) << text;
    fs::permissions(file, fs::perms::owner_all);
    return file.string();
  };
  const auto expect_refused = [](const std::string& file, const std::string& why) {
    const std::string words = refusal_of(file);
    EXPECT_EQ(words.find("A (it): " + file + ": is no noisemark program: "), 0U) << words;
    EXPECT_NE(words.find(why), std::string::npos) << words;
  };
  expect_refused("/nonexistent", "No such file or directory");
  for (const char* place : {".", "/"}) expect_refused(place, "Is a directory");
  expect_refused(program("\177ELF broken"), "exit code");
  expect_refused(program("#!/nonexistent/sh\n"), "No such file or directory");
  expect_refused(program("#!/bin/sh\nexit 0\n"), "exit code 0 without a word");
  expect_refused(program("#!/bin/sh\necho hello\n"), "exit code 0 and says: hello");
  expect_refused(program("#!/bin/sh\nkill -SEGV $$\n"), "by signal 11 without a word");
  expect_refused("/bin/true", "is no noisemark program");
  expect_refused("/bin/false", "is no noisemark program");
  EXPECT_EQ(refusal_of(test::noisemark_command({}).front()), "taken");
}

using Words = std::vector<std::string>;

Words pace_command(Words more = {}) {
  Words words = test::noisemark_command(
      {"pace", "gmm16-ho@cpu", "--device=cpu", "--threads=1", "--set=train.batch=1"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A process that does what this shell script says.
PaceProcess shell(const std::string& script,
                  std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  return {"B (broken)", {"/bin/sh", "-c", script}, patience};
}

struct Said {
  ExitCode code = ExitCode::kPass;
  std::string words;
};

template <typename Action>
Said error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

const std::string kReady =
    R"(echo '{"ready": true, "benchmark": "b", "variant": "v", "batch": 1, "parameters": 1, )"
    R"("identity": {}, "about": {}}'; )";

TEST(PaceProcess, of_the_real_program_says_what_it_is_and_takes_turns) {
  PaceProcess process("A (noisemark)", pace_command());
  const reports::AbBuild build = process.await_ready();
  EXPECT_EQ(build.benchmark, "gmm16-ho@cpu");
  EXPECT_EQ(build.variant, "none-plain-fp32");
  EXPECT_EQ(build.batch, 1);
  EXPECT_EQ(build.parameters, 701345);
  EXPECT_EQ(build.identity.at("identity.threads"), "1");
  EXPECT_EQ(build.identity.at("identity.overrides"), "train.batch=1");
  EXPECT_EQ(build.identity.at("provenance.init_weights_sha256").size(), 64U);
  EXPECT_EQ(build.about.at("binary_sha256").size(), 64U);
  const reports::AbTurn first = process.run(3);
  const reports::AbTurn second = process.run(2);
  EXPECT_EQ(first.step_s.size(), 3U);
  EXPECT_EQ(second.loss.size(), 2U);
  EXPECT_NE(first.loss[0], second.loss[0]);
  process.quit();
}

TEST(PaceProcess, of_the_real_program_repeats_its_losses_and_can_be_slowed_down) {
  PaceProcess plain("A (noisemark)", pace_command());
  PaceProcess slow("B (noisemark)", pace_command({"--slow-down=11"}));
  EXPECT_EQ(plain.await_ready().identity, slow.await_ready().identity);
  const reports::AbTurn fast_turn = plain.run(6);
  const reports::AbTurn slow_turn = slow.run(6);
  EXPECT_EQ(fast_turn.loss, slow_turn.loss);
  // A step takes twelve times as long. Twice is asked for, so that the fast turn alone may be
  // slowed down six times by what else the machine does.
  EXPECT_GT(*std::ranges::min_element(slow_turn.step_s),
            2 * *std::ranges::min_element(fast_turn.step_s));
}

TEST(PaceProcess, that_is_no_program_is_named) {
  const Said said =
      error_of([] { PaceProcess("A (/nonexistent/noisemark)", {"/nonexistent/noisemark"}); });
  EXPECT_EQ(said.code, ExitCode::kBadInput);
  EXPECT_EQ(said.words,
            "A (/nonexistent/noisemark): /nonexistent/noisemark: No such file or directory (a "
            "program: noisemark)");
}

TEST(PaceProcess, that_refuses_its_input_passes_its_code_on) {
  PaceProcess process("A (noisemark)", test::noisemark_command({"pace", "nonexistent"}));
  const Said said = error_of([&] { (void)process.await_ready(); });
  EXPECT_EQ(said.code, ExitCode::kBadInput);
  EXPECT_EQ(said.words, "A (noisemark): ended with exit code 2");
}

TEST(PaceProcess, that_dies_in_a_turn_is_named_with_its_signal) {
  PaceProcess process = shell(kReady + "read line; kill -SEGV $$");
  (void)process.await_ready();
  const Said said = error_of([&] { (void)process.run(1); });
  EXPECT_EQ(said.code, ExitCode::kInternal);
  EXPECT_EQ(said.words, "B (broken): ended by signal " + std::to_string(SIGSEGV));
}

TEST(PaceProcess, that_ended_before_its_turn_is_no_broken_pipe) {
  PaceProcess process = shell(kReady + "exit 71");
  (void)process.await_ready();
  usleep(100000);
  const Said said = error_of([&] { (void)process.run(1); });
  EXPECT_EQ(said.code, ExitCode::kOutOfMemory);
}

TEST(PaceProcess, that_ends_well_in_the_middle_has_failed_too) {
  PaceProcess process = shell(kReady + "exit 0");
  (void)process.await_ready();
  EXPECT_EQ(error_of([&] { (void)process.run(1); }).code, ExitCode::kInternal);
}

TEST(PaceProcess, that_answers_nonsense_is_quoted) {
  PaceProcess talker = shell("echo hello; read line");
  const Said said = error_of([&] { (void)talker.await_ready(); });
  EXPECT_EQ(said.code, ExitCode::kInternal);
  EXPECT_NE(said.words.find("B (broken): not the first answer of noisemark pace: "),
            std::string::npos);
  EXPECT_NE(said.words.find("hello"), std::string::npos);

  for (const char* answer :
       {"{}", R"({"step_s": [1], "loss": [1]})", R"({"step_s": [1, 2], "loss": [1, null]})",
        R"({"step_s": [1, 0], "loss": [1, 2]})", R"({"step_s": [1, 2], "loss": ["1", "2"]})"}) {
    PaceProcess process = shell(kReady + "read line; echo '" + answer + "'; read line");
    (void)process.await_ready();
    const Said turn = error_of([&] { (void)process.run(2); });
    EXPECT_EQ(turn.code, ExitCode::kInternal) << answer;
    EXPECT_NE(turn.words.find("not the answer to a turn: "), std::string::npos) << turn.words;
  }
}

TEST(PaceProcess, of_an_earlier_version_that_does_not_say_what_it_trains_is_refused) {
  PaceProcess process =
      shell(R"(echo '{"ready": true, "benchmark": "b", "variant": "v", "batch": 1}'; read line)");
  const Said said = error_of([&] { (void)process.await_ready(); });
  EXPECT_NE(said.words.find("parameters: missing"), std::string::npos) << said.words;
}

TEST(PaceProcess, that_never_answers_is_waited_for_only_so_long) {
  PaceProcess process = shell("sleep 60", std::chrono::milliseconds(200));
  const auto begin = std::chrono::steady_clock::now();
  const Said said = error_of([&] { (void)process.await_ready(); });
  EXPECT_EQ(said.words, "B (broken): no answer in 0.2 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace noisemark::suite
