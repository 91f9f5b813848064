#include "tests/suite/run/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace noisemark::suite::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  all.emplace_back("OMP_NUM_THREADS=1");
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& own : all) replaced = replaced || own.starts_with(name);
    if (!replaced) all.push_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

pid_t spawn(std::vector<std::string> command, const fs::path& log,
            const std::vector<std::string>& environment) {
  std::vector<std::string> variables = environment_with(environment);
  const std::vector<char*> argv = pointers_to(command);
  const std::vector<char*> envp = pointers_to(variables);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(error, 0) << "cannot start " << command[0];
  return error == 0 ? pid : 0;
}

std::string read_all(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Finished wait_for(pid_t pid, const fs::path& log) {
  int status = 0;
  if (pid == 0 || waitpid(pid, &status, 0) != pid) return {};
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read_all(log)};
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const fs::path& log,
                 const std::vector<std::string>& environment)
    : log_(log) {
  std::vector<std::string> command{NOISEMARK_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  pid_ = spawn(std::move(command), log_, environment);
}

Process::~Process() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  kill(pid_, number);
}

Finished Process::wait() {
  const Finished finished = wait_for(pid_, log_);
  pid_ = 0;
  return finished;
}

bool Process::running() const {
  siginfo_t info{};
  return pid_ != 0 &&
         waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

Finished run_noisemark(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& environment) {
  const TemporaryFolder folder;
  return Process(arguments, folder.path() / "log", environment).wait();
}

Finished run_noisemark_after(const std::string& shell_prefix,
                             const std::vector<std::string>& arguments) {
  std::string script = shell_prefix + "; exec " NOISEMARK_BINARY;
  for (const std::string& argument : arguments) script += " '" + argument + "'";
  const TemporaryFolder folder;
  const fs::path log = folder.path() / "log";
  return wait_for(spawn({"/bin/sh", "-c", script}, log, {}), log);
}

bool wait_for_file(const fs::path& path, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!fs::exists(path)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::path(::testing::TempDir()) / "noisemark-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace noisemark::suite::test
