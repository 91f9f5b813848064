#include "suite/ab/ref_build.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "reports/error.h"
#include "reports/file.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// Runs a program to its end; what it says on both streams goes to `log`, appended. Its exit code,
/// 127 when there is no such program.
int run_logged(Words command, const fs::path& log) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, words.front(), &files, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return 127;
  int status = 0;
  while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A file of its own, removed with the object.
class ScratchFile {
 public:
  ScratchFile() {
    std::string pattern = (fs::temp_directory_path() / "noisemark-ab-XXXXXX").string();
    const int file = mkstemp(pattern.data());
    if (file == -1) throw Error(ExitCode::kCannotWrite, pattern + ": cannot write");
    close(file);
    path_ = pattern;
  }
  ~ScratchFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// The first line that git says; empty when it fails.
std::string ask_git(const fs::path& folder, const Words& question) {
  const ScratchFile answer;
  Words command = {"git", "-C", folder.string()};
  command.insert(command.end(), question.begin(), question.end());
  if (run_logged(std::move(command), answer.path()) != 0) return "";
  const std::string text = reports::read_file(answer.path());
  return text.substr(0, text.find('\n'));
}

/// A worktree has no environment of its own: it takes that of the repository, unless the user's
/// variables name another.
Words with_libtorch(const fs::path& top, Words command) {
  const fs::path venv = top / "build" / "venv";
  if (std::getenv("NOISEMARK_VENV") == nullptr && std::getenv("NOISEMARK_TORCH_ROOT") == nullptr &&
      fs::exists(venv)) {
    command.insert(command.begin(), {"env", "NOISEMARK_VENV=" + venv.string()});
  }
  return command;
}

}  // namespace

fs::path build_revision(const std::string& revision, const fs::path& from,
                        const std::vector<std::string>& configure) {
  const std::string top = ask_git(from, {"rev-parse", "--show-toplevel"});
  if (top.empty()) throw bad_input("ab", revision, from.string() + " is in no git repository", "");
  const std::string commit = ask_git(
      top, {"rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"});
  if (commit.empty()) throw bad_input("ab", "", revision, "a revision of " + top);
  const fs::path folder = fs::path(top) / "build" / "ab";
  const fs::path tree = folder / commit;
  const fs::path log = folder / (commit + ".log");
  const fs::path build = tree / "build" / "ab";
  const fs::path program = build / "bin" / "noisemark";
  if (fs::exists(program)) return program;
  reports::make_folder(folder);
  const auto run = [&](const Words& command) {
    if (run_logged(command, log) == 0) return;
    throw bad_input("ab", revision, "does not build", "see " + log.string());
  };
  if (!fs::exists(tree)) {
    run({"git", "-C", top, "worktree", "add", "--detach", tree.string(), commit});
  }
  Words words = with_libtorch(top, {"cmake", "-G", "Ninja", "-S", tree.string(), "-B",
                                    build.string(), "-DCMAKE_BUILD_TYPE=Release"});
  words.insert(words.end(), configure.begin(), configure.end());
  run(words);
  run({"cmake", "--build", build.string(), "--target", "noisemark", "--parallel"});
  if (!fs::exists(program)) {
    throw bad_input("ab", revision, "built, but without bin/noisemark", "see " + log.string());
  }
  return program;
}

}  // namespace noisemark::suite
