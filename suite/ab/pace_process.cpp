#include "suite/ab/pace_process.h"

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
#include <cstring>
#include <utility>

#include "reports/ab/strict_json.h"

namespace noisemark::suite {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kShownCharacters = 80;

/// The child's ends and ours. A socket for its input, because writing to one whose other end is
/// gone need not raise a signal.
struct Channels {
  std::array<int, 2> input = {-1, -1};   // child's, ours
  std::array<int, 2> output = {-1, -1};  // ours, child's
};

Channels open_channels() {
  Channels channels;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channels.input.data()) != 0 ||
      pipe2(channels.output.data(), O_CLOEXEC) != 0) {
    throw Error(ExitCode::kInternal,
                std::string("cannot open a channel to a process: ") + std::strerror(errno));
  }
  return channels;
}

/// Its number, or the negative error.
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

/// A code of Noisemark's that says why it could not go on; anything else is no answer at all.
ExitCode code_of(int status) {
  if (!WIFEXITED(status)) return ExitCode::kInternal;
  for (const ExitCode code : {ExitCode::kFailed, ExitCode::kBadInput, ExitCode::kOutOfMemory,
                              ExitCode::kCannotWrite, ExitCode::kCannotRunHere}) {
    if (WEXITSTATUS(status) == static_cast<int>(code)) return code;
  }
  return ExitCode::kInternal;
}

std::string ended_words(int status) {
  return WIFEXITED(status) ? fmt::format("ended with exit code {}", WEXITSTATUS(status))
                           : fmt::format("ended by signal {}", WTERMSIG(status));
}

std::string shown(const std::string& line) {
  return line.size() > kShownCharacters ? line.substr(0, kShownCharacters) + "..." : line;
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
    throw bad_input(name_, command.front(), std::strerror(-pid), "a program: noisemark");
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
  int status = 0;
  const pid_t pid = std::exchange(pid_, 0);
  while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
  }
  return status;
}

void PaceProcess::fail(const std::string& words) {
  kill(-pid_, SIGKILL);
  (void)reap();
  throw Error(ExitCode::kInternal, name_ + ": " + words);
}

void PaceProcess::fail_ended() {
  const int status = reap();
  throw Error(code_of(status), name_ + ": " + ended_words(status));
}

void PaceProcess::send(const std::string& line) const {
  // Where it has ended, reading will say how.
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

reports::AbBuild PaceProcess::await_ready() {
  const std::string line = read_line();
  try {
    const reports::OrderedJson json = reports::parse_json(line, name_);
    const reports::JsonFields fields(json, name_);
    if (!fields.flag("ready")) throw fields.refusal("ready", "true");
    return reports::ab_build_of(fields);
  } catch (const Error& error) {
    fail(fmt::format("not the first answer of noisemark pace: {}: {}", error.what(), shown(line)));
  }
}

reports::AbTurn PaceProcess::run(int64_t steps) {
  send(fmt::format("run {}\n", steps));
  const std::string line = read_line();
  try {
    const reports::OrderedJson json = reports::parse_json(line, name_);
    const reports::JsonFields fields(json, name_);
    reports::AbTurn turn;
    turn.step_s = fields.numbers("step_s");
    turn.loss = fields.numbers("loss");
    const auto count = static_cast<size_t>(steps);
    if (turn.step_s.size() != count || turn.loss.size() != count ||
        std::any_of(turn.step_s.begin(), turn.step_s.end(), [](double s) { return s <= 0; })) {
      throw fields.refusal("step_s", fmt::format("{} positive numbers, as many losses", steps));
    }
    return turn;
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
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw Error(code_of(status), name_ + ": " + ended_words(status));
  }
}

}  // namespace noisemark::suite
