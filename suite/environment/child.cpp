#include "suite/environment/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <new>
#include <system_error>

namespace noisemark::suite {
namespace {

/// The texts as C has them, with a null behind the last.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Carries the cause to the parent when the program could not be started; closed by its start.
class StartReport {
 public:
  StartReport() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "pipe2");
    }
  }
  ~StartReport() {
    for (const int end : ends_) close_end(end);
  }
  StartReport(const StartReport&) = delete;
  StartReport& operator=(const StartReport&) = delete;

  void send(int cause) const { (void)!write(ends_[1], &cause, sizeof cause); }
  /// Waits. Returns 0 when the program was started.
  int await() {
    close_end(ends_[1]);
    ends_[1] = -1;
    int cause = 0;
    ssize_t got = 0;
    while ((got = read(ends_[0], &cause, sizeof cause)) < 0 && errno == EINTR) {
    }
    return got == static_cast<ssize_t>(sizeof cause) ? cause : 0;
  }

 private:
  static void close_end(int end) {
    if (end >= 0) close(end);
  }
  std::array<int, 2> ends_ = {-1, -1};
};

bool take_streams(const char* log) {
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return input >= 0 && output >= 0 && dup2(input, STDIN_FILENO) >= 0 &&
         dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0;
}

}  // namespace

std::vector<std::string> own_variables() {
  std::vector<std::string> all;
  for (char** one = environ; *one != nullptr; ++one) all.emplace_back(*one);
  return all;
}

pid_t start_child(ChildCommand command) {
  const std::vector<char*> words = pointers_to(command.words);
  const std::vector<char*> variables = pointers_to(command.variables);
  const char* log = command.log.empty() ? nullptr : command.log.c_str();
  StartReport report;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), command.program);
  if (child == 0) {
    // Nothing but calls that are safe after fork() in a process with threads.
    const bool ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
                       (command.kept < 0 || fcntl(command.kept, F_SETFD, 0) == 0) &&
                       (log == nullptr || take_streams(log));
    if (ready) execvpe(command.program.c_str(), words.data(), variables.data());
    report.send(errno == 0 ? ESRCH : errno);
    _exit(127);
  }
  const int cause = report.await();
  if (cause == 0) return child;
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  throw std::system_error(cause, std::generic_category(), command.program);
}

Cause::Cause() {
  if (pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe2");
  }
}

Cause::~Cause() {
  for (const int end : ends_) close(end);
}

namespace {

/// The first letter of a message, which a null ends.
constexpr char kCauseMessage = 'c';
constexpr char kRunMessage = 'r';

/// The descriptor on which the process that waits is told; -1: none does.
int awaited_on() {
  const char* number = std::getenv(Cause::kVariable);
  if (number == nullptr) return -1;
  const int descriptor = std::atoi(number);
  struct stat status {};
  const bool ours = descriptor > STDERR_FILENO && fstat(descriptor, &status) == 0 &&
                    S_ISFIFO(status.st_mode) && (fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0;
  return ours ? descriptor : -1;
}

void tell(char kind, const std::string& words) {
  const int descriptor = awaited_on();
  if (descriptor < 0) return;
  const std::string message = kind + words;
  (void)!write(descriptor, message.c_str(), message.size() + 1);
}

}  // namespace

bool Cause::is_awaited() noexcept {
  return awaited_on() >= 0;
}

Cause::Told Cause::told() const {
  std::string all;
  std::array<char, size_t{1} << 12U> block{};
  ssize_t got = 0;
  do {
    got = read(ends_[0], block.data(), block.size());  // waits for nobody
    if (got > 0) all.append(block.data(), static_cast<size_t>(got));
  } while (got > 0 || (got < 0 && errno == EINTR));
  Told told;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\0', begin), all.size());
    std::string& words = all[begin] == kRunMessage ? told.run_id : told.words;
    if (words.empty() && end > begin) words = all.substr(begin + 1, end - begin - 1);
    begin = end + 1;
  }
  return told;
}

void tell_cause(const std::string& words) noexcept {
  try {
    tell(kCauseMessage, words);
  } catch (const std::bad_alloc&) {  // nothing is told
  }
}

void tell_run(const std::string& run_id) noexcept {
  try {
    tell(kRunMessage, run_id);
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace noisemark::suite
