#include "tests/memopt/programs/children.h"

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <ctime>
#include <exception>
#include <string>

#include "tests/memopt/counting_clock.h"

namespace noisemark::memopt::programs {
namespace {

void write_all(int file, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<size_t>(written);
  }
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(file, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

/// Busy machines give a child little of their time, so that its own is limited: the kernel counts
/// it. A child that waits takes none, and is given up much later.
void limit_time(unsigned cpu_s) {
  constexpr unsigned kShareOfBusyMachine = 20;
  ::alarm(cpu_s * kShareOfBusyMachine);
  const itimerval limit = {{}, {static_cast<time_t>(cpu_s), 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

[[noreturn]] void be_child(const Program& program, const MakeMode& make, unsigned timeout_s,
                           int out) {
  limit_time(timeout_s);
  const test::CountingClock clock;  // a seed gives the same plans in every run, on any machine
  std::string text = "\n";
  try {
    const std::optional<Finding> finding = judge(program, make);
    if (finding) text = finding->kind + "\n" + finding->detail;
  } catch (const std::exception& error) {
    text = std::string("throws\nbetween steps: ") + error.what();
  }
  write_all(out, text);
  ::_exit(0);
}

Finding ending_of(int status) {
  if (!WIFSIGNALED(status)) {
    return {"crash", "exit code " + std::to_string(WEXITSTATUS(status))};
  }
  if (WTERMSIG(status) == SIGPROF) return {"timeout", "of its CPU time"};
  if (WTERMSIG(status) == SIGALRM) return {"timeout", "it waits for something"};
  return {"crash", ::strsignal(WTERMSIG(status))};
}

}  // namespace

std::optional<Finding> judge_in_child(const Program& program, const MakeMode& make,
                                      unsigned timeout_s) {
  int ends[2] = {};
  if (::pipe(ends) != 0) return Finding{"invalid", "no pipe"};
  const pid_t child = ::fork();
  if (child == 0) be_child(program, make, timeout_s, ends[1]);
  ::close(ends[1]);
  const std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  const size_t line = text.find('\n');
  if (line == std::string::npos) return ending_of(status);
  if (line == 0) return std::nullopt;
  const std::string rest = text.substr(line + 1);
  return Finding{text.substr(0, line), rest.substr(0, rest.find('\n'))};
}

}  // namespace noisemark::memopt::programs
