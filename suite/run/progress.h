#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace noisemark::suite {

/// How long a training still takes, from what its steps and evaluations took so far; 0 before the
/// first of them. Checkpoints are not counted.
class TimeLeft {
 public:
  void step(double seconds);
  void evaluation(double seconds);

  /// Smoothed, because steps change as a machine does.
  [[nodiscard]] double step_s() const { return step_s_; }
  /// Evaluations are all alike: their mean.
  [[nodiscard]] double seconds(int64_t steps, int64_t evaluations) const;

 private:
  double step_s_ = 0;
  double evaluations_s_ = 0;
  int64_t evaluations_ = 0;
};

/// One line on standard error that is rewritten as a run goes on. Silent where standard error is no
/// terminal, so that logs stay readable.
class Progress {
 public:
  Progress(std::string label, int64_t steps, int64_t images_per_step);
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
  std::string label_;
  int64_t steps_;
  int64_t images_per_step_;
  bool terminal_;
  TimeLeft left_;
  std::chrono::steady_clock::time_point last_shown_{};
};

}  // namespace noisemark::suite
