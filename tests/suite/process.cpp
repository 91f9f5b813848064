#include "tests/suite/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>
#include <utility>

#include "suite/run/passes/watch.h"

namespace noisemark::suite::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

Texts environment_with(Variables variables) {
  variables.try_emplace("OMP_NUM_THREADS", "1");
  Texts all;
  for (const auto& [name, value] : variables) {
    if (!value.empty()) all.push_back(std::string(name).append("=").append(value));
  }
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!variables.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(Texts& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string read_all(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string shell_quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      result += "'\\''";
    } else {
      result += letter;
    }
  }
  return result + "'";
}

}  // namespace

/// The places to which the process writes: two files, or a file and a terminal that is read as it
/// is written.
class Process::Streams {
 public:
  explicit Streams(StandardError error) : error_(folder_.path() / "err") {
    if (error == StandardError::kFile) return;
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_TRUE(terminal_ >= 0 && grantpt(terminal_) == 0 && unlockpt(terminal_) == 0);
    error_ = ptsname(terminal_);
  }
  ~Streams() {
    if (terminal_ >= 0) close(terminal_);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  [[nodiscard]] fs::path out() const { return folder_.path() / "out"; }
  [[nodiscard]] const fs::path& error() const { return error_; }

  /// Reads to the end: a terminal's buffer is small, and whoever writes into a full one waits.
  std::string read_error() {
    if (terminal_ < 0) return {};
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(terminal_, buffer, sizeof buffer)) > 0;) text.append(buffer, n);
    return text;
  }
  [[nodiscard]] std::string error_text(std::string terminal_text) const {
    return terminal_ < 0 ? read_all(error_) : std::move(terminal_text);
  }

 private:
  TemporaryFolder folder_;
  fs::path error_;
  int terminal_ = -1;
};

Texts noisemark_command(const Texts& arguments, const std::string& shell_prefix) {
  Texts command{NOISEMARK_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (shell_prefix.empty()) return command;
  std::string script = shell_prefix + "; exec";
  for (const std::string& word : command) script.append(" ").append(shell_quoted(word));
  return {"/bin/sh", "-c", script};
}

Process::Process(Texts command, const Variables& variables, StandardError error)
    : streams_(std::make_unique<Streams>(error)) {
  Texts environment = environment_with(variables);
  const std::vector<char*> argv = pointers_to(command);
  const std::vector<char*> envp = pointers_to(environment);
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY;
  const std::string out = streams_->out().string();
  const std::string err = streams_->error().string();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kWrite, 0644);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kWrite, 0644);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Whoever started the tests may have let them ignore what these send.
  sigset_t usual;
  sigemptyset(&usual);
  for (const int number : suite::kEndRequests) sigaddset(&usual, number);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  const int failure = posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failure, 0) << "cannot start " << command[0];
  if (failure != 0) pid_ = 0;
}

Process::~Process() {
  if (pid_ == 0) return;
  signal_all(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  kill(pid_, number);
}

void Process::pass_on(int number) const {
  sigqueue(pid_, number, sigval{});
}

void Process::signal_all(int number) const {
  kill(-pid_, number);
}

Finished Process::wait() {
  std::string terminal_text = streams_->read_error();
  int status = 0;
  if (pid_ == 0 || waitpid(std::exchange(pid_, 0), &status, 0) <= 0) return {};
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read_all(streams_->out()), streams_->error_text(std::move(terminal_text))};
}

bool Process::running() const {
  siginfo_t info{};
  return pid_ != 0 &&
         waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

std::string Finished::said() const {
  static const std::regex progress(
      "noisemark: [^:\\n]*: (\\w+ pass, |step \\d+/|evaluating|sampling|writing "
      "samples)[^\\n]*\\n");
  return std::regex_replace(err, progress, "");
}

Finished run_noisemark(const Texts& arguments, const Variables& variables) {
  return Process(noisemark_command(arguments), variables).wait();
}

Finished noisemark(const Texts& arguments, Variables variables) {
  variables.try_emplace("NOISEMARK_DATA", "");
  variables.try_emplace("NOISEMARK_REQUIRE", "");
  return run_noisemark(arguments, variables);
}

void expect_bad_input(const Texts& arguments, const std::string& message) {
  const Finished done = noisemark(arguments);
  EXPECT_EQ(done.code, 2) << message;
  EXPECT_EQ(done.err, "noisemark: " + message + "\n");
  EXPECT_EQ(done.out, "") << message;
}

Finished run_noisemark_after(const std::string& shell_prefix, const Texts& arguments) {
  return Process(noisemark_command(arguments, shell_prefix)).wait();
}

int64_t address_space_kib() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

std::optional<pid_t> process_of(const std::filesystem::path& out, int64_t rank) {
  const std::string variable = '\0' + ("RANK=" + std::to_string(rank)) + '\0';
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (file_bytes(entry.path() / "cmdline").find(out.string()) == std::string::npos) continue;
    const std::string variables = '\0' + file_bytes(entry.path() / "environ");
    if (variables.find(variable) != std::string::npos) return std::stoi(name);
  }
  return std::nullopt;
}

bool wait_for_file(const fs::path& path, const std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!fs::exists(path) || read_all(path).find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace noisemark::suite::test
