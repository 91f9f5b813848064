#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace noisemark::suite {

class Group;

/// The signals that ask a run to end: of a person, of a terminal that is closed (SIGHUP), of a
/// limit on processor time, and of a scheduler before its own limit.
inline constexpr std::array kEndRequests = {SIGINT,  SIGTERM, SIGQUIT, SIGHUP,
                                            SIGXCPU, SIGUSR1, SIGUSR2};

/// Makes each of them end the process with exit code 130 and a sentence from now on, while no
/// InterruptGuard takes them: a command that has nothing to keep ends as one that has. A signal
/// that the process was started to ignore stays ignored.
void end_on_request();

/// While alive, the first of these signals only asks for an end after the current step; a second
/// one, if it is SIGINT, SIGTERM or SIGQUIT, ends the process as usual. One that
/// InterruptForwarding of the parent passed on and that came by itself too, from a terminal
/// that sends it to all, is one. A signal that the process was started to ignore stays ignored
/// (nohup). A reader that closes its end of a pipe meanwhile ends nothing: what is written there
/// fails. After a request all this holds until the process ends. One guard at a time.
class [[nodiscard]] InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] bool requested() const;

 private:
  std::array<struct sigaction, kEndRequests.size()> before_{};
  bool pipe_ends_ = false;  ///< SIGPIPE ended the process before this guard
};

/// While alive, within an InterruptGuard, every interrupt of this process goes on to `child`, an
/// earlier one too, and not even a second one ends this process: it stays to tell how the child
/// ended. `child` must not be waited for before the end.
class [[nodiscard]] InterruptForwarding {
 public:
  explicit InterruptForwarding(pid_t child);
  ~InterruptForwarding();
  InterruptForwarding(const InterruptForwarding&) = delete;
  InterruptForwarding& operator=(const InterruptForwarding&) = delete;
};

/// A pass that has nothing to keep ended because it was asked to. what() says after which step.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(const std::string& what) : std::runtime_error(what) {}
};

/// A line of progress is not written more often than this.
inline constexpr std::chrono::milliseconds kShowEvery{200};

/// Estimates how long a training still takes, from what its steps and evaluations took so far; 0
/// before the first of them. Checkpoints are not counted.
class TimeLeft {
 public:
  void step(double seconds);
  void evaluation(double seconds);

  /// It is smoothed, because steps change as a machine does.
  [[nodiscard]] double step_s() const { return step_s_; }
  /// Evaluations are all alike: their mean.
  [[nodiscard]] double seconds(int64_t steps, int64_t evaluations) const;

 private:
  double step_s_ = 0;
  double evaluations_s_ = 0;
  int64_t evaluations_ = 0;
};

/// Returns the beginning of `text` (UTF-8) that leaves one of `columns` free.
[[nodiscard]] std::string cut_to_width(const std::string& text, size_t columns);

/// One line on standard error that is rewritten as a run goes on, cut to the terminal's width.
/// A log, which is no terminal, gets a line of its own every so often instead.
class Progress {
 public:
  static constexpr std::chrono::milliseconds kLogEvery{30'000};

  /// Shows nothing without a label.
  Progress(std::string label, int64_t steps, int64_t images_per_step,
           std::chrono::milliseconds log_every = kLogEvery);
  ~Progress();  ///< clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// "LABEL: DOING": what begins now.
  void say(const std::string& doing);
  /// An evaluation took `seconds`; the time left counts those that are to come.
  void evaluated(double seconds) { left_.evaluation(seconds); }
  /// Step, rate, loss and time left, after training step `step` (from 0) took `step_s`, with
  /// `evaluations` still to come.
  void show(int64_t step, double step_s, double loss, int64_t evaluations);
  void clear();

 private:
  /// Returns whether to show what happens now, given how long a terminal's line stays at least.
  bool is_due(std::chrono::milliseconds least);
  void put(const std::string& text) const;

  std::string label_;
  int64_t steps_;
  int64_t images_per_step_;
  std::chrono::milliseconds log_every_;
  bool terminal_;
  TimeLeft left_;
  std::chrono::steady_clock::time_point last_shown_ = std::chrono::steady_clock::now();
};

/// The means that every pass of a run is given: where to show what it does, and whether it is to
/// end. Owns none.
struct PassWatch {
  Progress& line;
  const InterruptGuard& interrupt;
  Group* group = nullptr;  ///< the ranks that make the passes together; null: this process alone

  /// Says whether `here` holds on every rank, where they must go on alike: all of them ask.
  [[nodiscard]] bool on_all(bool here) const;
  /// Says whether an end was requested, of any rank.
  [[nodiscard]] bool end_requested() const { return !on_all(!interrupt.requested()); }

  /// Call it before step `step` (from 0) of `steps`: shows "PASS, step 2/5". Throws
  /// Interrupted when an end was requested.
  void before_step(const std::string& pass, int64_t step, int64_t steps) const;
};

}  // namespace noisemark::suite
