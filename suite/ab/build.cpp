#include "suite/ab/build.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "reports/ab/ab_fields.h"
#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/base/markdown.h"
#include "reports/base/sha256.h"
#include "reports/result/json_io.h"
#include "suite/environment/child.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

constexpr int kNoSuchProgram = 127;
constexpr const char* kClone =
    "a clone of Noisemark as the working folder, or programs: --a and --b";

/// Waits for the end of a child. Returns its status as waitpid() tells it.
int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
  }
  return status;
}

/// Returns the exit code of a status, as a shell tells it: 128 + signal when one ended the program.
int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string ended_words(int status) {
  return WIFEXITED(status) ? fmt::format("ended with exit code {}", WEXITSTATUS(status))
                           : fmt::format("ended by signal {}", WTERMSIG(status));
}

/// Runs a program to its end, found as a shell finds it, without input. Appends both of its streams
/// to `log`. Returns what wait_for() returns. Throws std::system_error when it cannot be started.
int run_started(const std::vector<std::string>& command, const fs::path& log) {
  return wait_for(start_child({command.front(), command, own_variables(), log}));
}

/// Returns the error of a program that cannot be started. Its name is to blame, or else the
/// machine.
Error not_started(const std::string& program, const std::error_code& cause) {
  constexpr std::array kOfTheName = {
      std::errc::no_such_file_or_directory, std::errc::permission_denied,
      std::errc::executable_format_error,   std::errc::not_a_directory,
      std::errc::filename_too_long,         std::errc::too_many_symbolic_link_levels};
  const bool of_the_name = std::any_of(kOfTheName.begin(), kOfTheName.end(),
                                       [&](std::errc one) { return cause == one; });
  if (!of_the_name) return reports::error_of(fs::filesystem_error("", program, cause));
  return bad_input(program, "", "cannot be started: " + cause.message(), "a program");
}

/// Runs a program as run_started() does. Returns its exit code, kNoSuchProgram when there is none
/// of its name.
int run_program(const std::vector<std::string>& command, const fs::path& log) {
  try {
    return exit_code_of(run_started(command, log));
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) return kNoSuchProgram;
    throw not_started(command.front(), error.code());
  }
}

using Words = std::vector<std::string>;

std::string last_line_of(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::string shown(const std::string& line) {
  constexpr size_t kShownCharacters = 80;
  return line.size() > kShownCharacters ? line.substr(0, kShownCharacters) + "..." : line;
}

/// An answer of git's: its last line, because warnings come before it; or why there is none.
struct GitAnswer {
  std::string line;  ///< is empty where git refused
  std::string why;   ///< git's own words, in one line
};

std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool space = c == '\n' || c == '\t' || c == ' ';
    if (!space) line += c;
    if (space && !line.empty() && line.back() != ' ') line += ' ';
  }
  if (line.ends_with(' ')) line.pop_back();
  return line;
}

GitAnswer ask_git(const fs::path& folder, const Words& question) {
  const reports::ScratchFolder scratch("ab");
  const fs::path answer = scratch.path() / "answer";
  Words command = {"git", "-C", folder.string()};
  command.insert(command.end(), question.begin(), question.end());
  const int code = run_program(command, answer);
  if (code == kNoSuchProgram) return {"", "git is not installed"};
  const std::string said = reports::read_file(answer);
  const std::string words = in_one_line(said);
  if (code != 0 && words.empty()) {
    return {"", fmt::format("git ended with {} and said nothing", code)};
  }
  if (code != 0) return {"", "git says: " + words};
  return {last_line_of(said), ""};
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

// Later ones win, so these come behind the user's. A steady step for the memory pass, a few losses,
// one profiled step for the FLOPs, and the shortest evaluation that there is.
constexpr std::array kShort = {"train.steps=4", "eval.samples=8", "eval.every=0",
                               "measure.profile_steps=1"};
constexpr const char* kDeterministic = "--deterministic";

std::vector<std::string> command_of(const std::string& binary,
                                    const std::vector<std::string>& words, const fs::path& out) {
  std::vector<std::string> command = {binary, "run"};
  command.insert(command.end(), words.begin(), words.end());
  for (const char* assignment : kShort) command.push_back(fmt::format("--set={}", assignment));
  if (std::find(words.begin(), words.end(), kDeterministic) == words.end()) {
    command.emplace_back(kDeterministic);
  }
  command.emplace_back("--no-certificate");
  command.push_back("--out=" + out.string());
  return command;
}

/// The exit code of a program that did not pass, where it is one of Noisemark's that tells why;
/// anything else is no answer at all.
ExitCode code_of(int status) {
  for (const ExitCode code : {ExitCode::kFailed, ExitCode::kBadInput, ExitCode::kOutOfMemory,
                              ExitCode::kCannotWrite, ExitCode::kCannotRunHere}) {
    if (status == static_cast<int>(code)) return code;
  }
  return ExitCode::kInternal;
}

reports::Result result_in(const fs::path& out, const std::string& name) {
  try {
    return reports::read_result(out / "result.json");
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: its short run: {}", name, error.what()));
  }
}

struct Revision {
  std::string top;  ///< top folder of the repository
  std::string commit;
};

Revision find_revision(const std::string& revision, const fs::path& from) {
  const GitAnswer repository = ask_git(from, {"rev-parse", "--show-toplevel"});
  if (repository.line.empty()) {
    throw bad_input("ab", revision, from.string() + ": " + repository.why, kClone);
  }
  const std::string& top = repository.line;
  const std::string commit = revision + "^{commit}";
  const GitAnswer found =
      ask_git(top, {"rev-parse", "--verify", "--quiet", "--end-of-options", commit});
  if (!found.line.empty()) {
    // Another project, or a folder above, is not what anybody waits minutes to see fail.
    if (ask_git(top, {"cat-file", "-t", found.line + ":CMakeLists.txt"}).line == "blob") {
      return {top, found.line};
    }
    throw bad_input("ab", revision, "has no CMakeLists.txt in " + top, kClone);
  }
  // The first question has the same words for all causes; this one gets git's own.
  const GitAnswer refused = ask_git(top, {"rev-list", "-1", "--end-of-options", revision, "--"});
  // CI systems make shallow clones by default.
  const bool shallow = ask_git(top, {"rev-parse", "--is-shallow-repository"}).line == "true";
  throw bad_input(
      "ab", revision, refused.why.empty() ? "is no commit" : refused.why,
      fmt::format("a revision of {}{}", top,
                  shallow ? ", a shallow clone: git fetch --unshallow brings the others" : ""));
}

}  // namespace

void require_revision(const std::string& revision, const fs::path& from) {
  (void)find_revision(revision, from);
}

fs::path build_revision(const std::string& revision, const fs::path& from,
                        const std::vector<std::string>& configure) {
  const auto [top, commit] = find_revision(revision, from);
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
    // The rest of a worktree that was deleted, or not made to its end, would be in the way.
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

void require_noisemark(const std::string& name, const std::string& binary) {
  const auto refuse = [&](const std::string& why) {
    throw bad_input(name, binary, "is no noisemark program: " + why, "a program: noisemark");
  };
  std::error_code unknown;
  if (access(binary.c_str(), X_OK) != 0) refuse(std::strerror(errno));
  if (fs::is_directory(binary, unknown)) refuse(std::strerror(EISDIR));
  const reports::ScratchFolder scratch("ab");
  const fs::path log = scratch.path() / "log";
  int status = 0;
  try {
    status = run_started({binary, "--version"}, log);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) throw;
    refuse(error.code().message());
  }
  const std::string said = in_one_line(reports::read_file(log));
  if (status == 0 && said.starts_with("noisemark ")) return;
  refuse(fmt::format(
      "--version {}{}{}", ended_words(status),
      said.empty() ? " without a word" : " and says: ", shown(reports::one_line(said))));
}

std::optional<reports::Result> short_run(const std::string& name, const std::string& binary,
                                         const std::vector<std::string>& words) {
  const reports::ScratchFolder scratch("ab");
  const fs::path log = scratch.path() / "log";
  const fs::path out = scratch.path() / "run";
  const int status = run_program(command_of(binary, words, out), log);
  // A run that fails a gate of its own has a result too.
  if (status == static_cast<int>(ExitCode::kPass) ||
      status == static_cast<int>(ExitCode::kFailed)) {
    return result_in(out, name);
  }
  if (status == static_cast<int>(ExitCode::kInterrupted)) return std::nullopt;
  throw Error(code_of(status), fmt::format("{}: its short run ended with exit code {}: {}", name,
                                           status, last_line_of(reports::read_file(log))));
}

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// The child's ends and ours. Its input is a socket, because writing to one whose other end is
/// gone need not raise a signal.
struct Channels {
  std::array<int, 2> input = {-1, -1};   // child's, ours
  std::array<int, 2> output = {-1, -1};  // ours, child's
};

Channels open_channels() {
  Channels channels;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channels.input.data()) != 0 ||
      pipe2(channels.output.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "a channel to a process");
  }
  return channels;
}

/// Starts the child. Returns its process number, or the error with a minus sign.
pid_t spawn(std::vector<std::string>& command, const Channels& channels) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, channels.input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, channels.output[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words.front(), &files, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? pid : -error;
}

}  // namespace

PaceProcess::PaceProcess(std::string name, std::vector<std::string> command,
                         std::chrono::milliseconds patience)
    : name_(std::move(name)), patience_(patience) {
  const Channels channels = open_channels();
  const pid_t pid = spawn(command, channels);
  close(channels.input[0]);
  close(channels.output[1]);
  to_child_ = channels.input[1];
  from_child_ = channels.output[0];
  if (pid < 0) {
    close(to_child_);
    close(from_child_);
    const std::error_code cause(-pid, std::generic_category());
    const Error error = not_started(command.front(), cause);
    if (error.code() == ExitCode::kOutOfMemory) throw error;
    throw bad_input(name_, command.front(), cause.message(), "a program: noisemark");
  }
  pid_ = pid;
}

PaceProcess::~PaceProcess() {
  if (pid_ != 0) {
    kill(-pid_, SIGKILL);
    (void)reap();
  }
  close(to_child_);
  close(from_child_);
}

int PaceProcess::reap() {
  return wait_for(std::exchange(pid_, 0));
}

void PaceProcess::fail(const std::string& words) {
  kill(-pid_, SIGKILL);
  (void)reap();
  throw Error(ExitCode::kInternal, name_ + ": " + words);
}

void PaceProcess::fail_ended() {
  const int status = reap();
  throw Error(code_of(exit_code_of(status)), name_ + ": " + ended_words(status));
}

void PaceProcess::send(const std::string& line) const {
  // If it has ended, reading will say how.
  (void)::send(to_child_, line.data(), line.size(), MSG_NOSIGNAL);
}

std::string PaceProcess::read_line() {
  const auto end = steady_clock::now() + patience_;
  for (;;) {
    const size_t stop = buffer_.find('\n');
    if (stop != std::string::npos) {
      std::string line = buffer_.substr(0, stop);
      buffer_.erase(0, stop + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    pollfd waited{from_child_, POLLIN, 0};
    const int ready = poll(&waited, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready == -1 && errno == EINTR) continue;
    if (ready <= 0) {
      fail(fmt::format("no answer in {} s", std::chrono::duration<double>(patience_).count()));
    }
    std::array<char, 65536> bytes{};
    const ssize_t count = read(from_child_, bytes.data(), bytes.size());
    if (count == -1 && errno == EINTR) continue;
    if (count <= 0) fail_ended();
    buffer_.append(bytes.data(), static_cast<size_t>(count));
  }
}

namespace {

/// A build of another commit may say more than this one knows.
template <class Answer>
Answer answer_of(const std::string& line, const std::string& where) {
  namespace json = reports::json;
  Answer answer;
  json::Reader(where, json::Bounds::kRequired, json::UnknownKeys::kIgnored)
      .value(reports::parse_json(line, where), answer, json::Path{});
  return answer;
}

}  // namespace

reports::AbBuild PaceProcess::await_ready() {
  const std::string line = read_line();
  try {
    const auto ready = answer_of<reports::PaceReady>(line, name_);
    if (!ready.ready) throw bad_input(name_, "ready", "false", "true");
    return ready;
  } catch (const Error& error) {
    fail(fmt::format("not the first answer of noisemark pace: {}: {}", error.what(), shown(line)));
  }
}

reports::AbTurn PaceProcess::run(int64_t steps) {
  send(fmt::format("run {}\n", steps));
  const std::string line = read_line();
  try {
    const auto turn = answer_of<reports::PaceTurn>(line, name_);
    const auto count = static_cast<size_t>(steps);
    if (turn.step_s.size() != count || turn.loss.size() != count ||
        std::any_of(turn.step_s.begin(), turn.step_s.end(), [](double s) { return s <= 0; })) {
      throw bad_input(name_, "step_s", fmt::format("{} numbers", turn.step_s.size()),
                      fmt::format("{} positive numbers, as many losses", steps));
    }
    return {.step_s = turn.step_s, .loss = turn.loss};
  } catch (const Error& error) {
    fail(fmt::format("not the answer to a turn: {}: {}", error.what(), shown(line)));
  }
}

void PaceProcess::quit() {
  send("quit\n");
  shutdown(to_child_, SHUT_WR);
  const auto end = steady_clock::now() + patience_;
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0) {
    if (steady_clock::now() > end) fail("does not end");
    usleep(1000);
  }
  const int status = reap();
  if (status != 0) {
    throw Error(code_of(exit_code_of(status)), name_ + ": " + ended_words(status));
  }
}

}  // namespace noisemark::suite
