#include "suite/run/passes/watch.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "reports/base/streams.h"
#include "suite/parallel/group.h"

namespace noisemark::suite {
namespace {

// A signal handler can reach nothing but globals, and share nothing but lock-free atomics.
static_assert(std::atomic<int>::is_always_lock_free);
std::atomic<int> direct = 0;       // signals from a terminal, a person, a batch system
std::atomic<int> passed_on = 0;    // signals from the parent, which was sent them too or alone
std::atomic<int> warned = 0;       // 1: by a signal that may be repeated
std::atomic<pid_t> child_now = 0;  // 0: none
std::atomic<int> forwarded = 0;    // signals to child_now
std::atomic<int> latest = SIGINT;

/// A signal that reached this process in both ways is one request.
int requests() {
  return std::max({direct.load(), passed_on.load(), warned.load()});
}

/// Each request once, whichever thread comes here first.
void forward(int signal) {
  int sent = forwarded;
  while (sent < requests()) {
    if (!forwarded.compare_exchange_weak(sent, sent + 1)) continue;
    sigqueue(child_now, signal, sigval{});
    ++sent;
  }
}

/// A terminal that is closed sends SIGHUP to all, and its shell sends it to all once more; beyond a
/// limit of processor time SIGXCPU comes every second; a scheduler warns a whole job, the job's
/// script passes that on, and SIGTERM follows. However often they come, they are one request, and
/// what follows them is no second one.
bool is_warning(int signal) {
  return signal == SIGHUP || signal == SIGXCPU || signal == SIGUSR1 || signal == SIGUSR2;
}

void count_request(int signal, const siginfo_t& info) {
  if (is_warning(signal)) {
    warned = 1;
    return;
  }
  const bool by_parent = info.si_code == SI_QUEUE && info.si_pid == getppid();
  ++(by_parent ? passed_on : direct);
}

void on_interrupt(int signal, siginfo_t* info, void*) {
  const int before = requests();
  count_request(signal, *info);
  if (requests() == before) return;
  const int error = errno;
  latest = signal;
  if (child_now != 0) {
    forward(signal);
  } else if (requests() > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  errno = error;
}

void say_and_end(int signal) {
  std::signal(SIGPIPE, SIG_IGN);  // standard error may be gone, and the exit code says it too
  for (const char* words : {"noisemark: interrupted by SIG", sigabbrev_np(signal), "\n"}) {
    (void)!write(STDERR_FILENO, words, std::strlen(words));
  }
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void end_on_request() {
  struct sigaction action {};
  action.sa_handler = say_and_end;
  for (const int signal : kEndRequests) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (!is_ignored(before)) sigaction(signal, &action, nullptr);
  }
}

InterruptGuard::InterruptGuard() {
  direct = 0;
  passed_on = 0;
  warned = 0;
  struct sigaction action {};
  action.sa_sigaction = on_interrupt;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (size_t i = 0; i < kEndRequests.size(); ++i) {
    sigaction(kEndRequests[i], nullptr, &before_[i]);
    if (!is_ignored(before_[i])) sigaction(kEndRequests[i], &action, nullptr);
  }
  pipe_ends_ = std::signal(SIGPIPE, SIG_IGN) == SIG_DFL;
}

InterruptGuard::~InterruptGuard() {
  // A repeated request, or one that follows a warning, may come until the process ends.
  for (size_t i = 0; i < kEndRequests.size() && !requested(); ++i) {
    struct sigaction now {};
    sigaction(kEndRequests[i], nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_interrupt) {
      sigaction(kEndRequests[i], &before_[i], nullptr);
    }
  }
  if (pipe_ends_) std::signal(SIGPIPE, SIG_DFL);
}

bool InterruptGuard::requested() const {
  return requests() > 0;
}

InterruptForwarding::InterruptForwarding(pid_t child) {
  forwarded = 0;
  child_now = child;
  forward(latest);
}

InterruptForwarding::~InterruptForwarding() {
  child_now = 0;
}

namespace {

constexpr double kSmoothing = 0.1;

std::string remaining_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

void TimeLeft::step(double seconds) {
  step_s_ = step_s_ == 0 ? seconds : (1 - kSmoothing) * step_s_ + kSmoothing * seconds;
}

void TimeLeft::evaluation(double seconds) {
  evaluations_s_ += seconds;
  ++evaluations_;
}

double TimeLeft::seconds(int64_t steps, int64_t evaluations) const {
  const double each = evaluations_ == 0 ? 0 : evaluations_s_ / static_cast<double>(evaluations_);
  return static_cast<double>(steps) * step_s_ + static_cast<double>(evaluations) * each;
}

namespace {

/// Returns more than any text has where the terminal does not say.
size_t columns_of_terminal() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : std::numeric_limits<size_t>::max();
}

/// Replaces the line that is there. A terminal that is gone takes no run with it.
void rewrite_line(const std::string& text) {
  (void)std::fprintf(stderr, "\r\033[K%s", cut_to_width(text, columns_of_terminal()).c_str());
  (void)std::fflush(stderr);
}

/// First and last of the characters that take two columns (Unicode's East_Asian_Width W and F, with
/// what lies between), by blocks.
struct WideRange {
  uint32_t first;
  uint32_t last;
};
constexpr std::array kWideRanges = {
    WideRange{0x1100, 0x115F},   WideRange{0x2E80, 0x303E},   WideRange{0x3041, 0xA4CF},
    WideRange{0xA960, 0xA97F},   WideRange{0xAC00, 0xD7A3},   WideRange{0xF900, 0xFAFF},
    WideRange{0xFE10, 0xFE6F},   WideRange{0xFF01, 0xFF60},   WideRange{0xFFE0, 0xFFE6},
    WideRange{0x16FE0, 0x18DFF}, WideRange{0x1AFF0, 0x1B2FF}, WideRange{0x1F004, 0x1FAFF},
    WideRange{0x20000, 0x3FFFD}};

size_t columns_of(std::string_view character) {
  if (character.size() < 3) return 1;
  uint32_t point = static_cast<unsigned char>(character[0]) & (character.size() == 3 ? 0x0FU : 7U);
  for (const char c : character.substr(1)) {
    point = point << 6U | (static_cast<unsigned char>(c) & 0x3FU);
  }
  return std::any_of(kWideRanges.begin(), kWideRanges.end(),
                     [&](const WideRange& b) { return b.first <= point && point <= b.last; })
             ? 2
             : 1;
}

}  // namespace

std::string cut_to_width(const std::string& text, size_t columns) {
  // The last column stays free: some terminals go to the next line when it is taken.
  size_t left = columns - 1;
  size_t end = 0;
  while (end < text.size()) {
    const std::string_view rest = std::string_view(text).substr(end);
    const size_t size = std::max<size_t>(reports::utf8_size(rest), 1);
    const size_t width = columns_of(rest.substr(0, size));
    if (width > left) break;
    left -= width;
    end += size;
  }
  return text.substr(0, end);
}

Progress::Progress(std::string label, int64_t steps, int64_t images_per_step,
                   std::chrono::milliseconds log_every)
    : label_(std::move(label)),
      steps_(steps),
      images_per_step_(images_per_step),
      log_every_(log_every),
      terminal_(!label_.empty() && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (!terminal_) return;
  rewrite_line("");
}

bool Progress::is_due(std::chrono::milliseconds least) {
  if (label_.empty()) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_shown_ < (terminal_ ? least : log_every_)) return false;
  last_shown_ = now;
  return true;
}

void Progress::put(const std::string& text) const {
  if (terminal_) return rewrite_line(text);
  constexpr size_t kColumns = 80 - std::string_view("noisemark: ").size();
  reports::say_on_stderr(cut_to_width(text, kColumns + 1));
}

void Progress::say(const std::string& doing) {
  if (is_due({})) put(fmt::format("{}: {}", label_, doing));
}

void Progress::show(int64_t step, double step_s, double loss, int64_t evaluations) {
  left_.step(step_s);
  const bool last = terminal_ && step + 1 == steps_;
  if (!is_due(last ? std::chrono::milliseconds{} : kShowEvery)) return;
  const double rate = static_cast<double>(images_per_step_) / left_.step_s();
  const double left_s = left_.seconds(steps_ - step - 1, evaluations);
  put(fmt::format("{}: step {}/{}, {:.1f} images/s, loss {:.4f}, {} left", label_, step + 1, steps_,
                  rate, loss, remaining_text(left_s)));
}

bool PassWatch::on_all(bool here) const {
  return group == nullptr ? here : group->mean(here ? 1 : 0) == 1;
}

void PassWatch::before_step(const std::string& pass, int64_t step, int64_t steps) const {
  if (end_requested()) {
    throw Interrupted(fmt::format("interrupted in the {} after step {} of {}", pass, step, steps));
  }
  line.say(fmt::format("{}, step {}/{}", pass, step + 1, steps));
}

}  // namespace noisemark::suite
