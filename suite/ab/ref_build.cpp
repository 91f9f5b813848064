#include "suite/ab/ref_build.h"

#include <cstdlib>
#include <utility>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/sha256.h"
#include "suite/ab/run_program.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// The first line that git says; empty when it fails.
std::string ask_git(const fs::path& folder, const Words& question) {
  const ScratchFolder scratch;
  const fs::path answer = scratch.path() / "answer";
  Words command = {"git", "-C", folder.string()};
  command.insert(command.end(), question.begin(), question.end());
  if (run_program(std::move(command), answer) != 0) return "";
  const std::string text = reports::read_file(answer);
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

/// Other words for cmake make another program, and so another folder beside the first.
std::string build_name(const Words& configure) {
  if (configure.empty()) return "ab";
  constexpr size_t kDigits = 12;
  std::string all;
  for (const std::string& word : configure) all += word + '\0';
  return "ab-" + reports::sha256_of(all).substr(0, kDigits);
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
  const fs::path build = tree / "build" / build_name(configure);
  const fs::path program = build / "bin" / "noisemark";
  if (fs::exists(program)) return program;
  reports::make_folder(folder);
  const auto run = [&](const Words& command) {
    if (run_program(command, log) == 0) return;
    throw bad_input("ab", revision, "does not build", "see " + log.string());
  };
  if (!fs::exists(tree / ".git")) {
    // What a worktree that was deleted, or not made to its end, left behind would be in the way.
    fs::remove_all(tree);
    run({"git", "-C", top, "worktree", "prune"});
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
