#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace noisemark::suite {

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
  /// Step, rate, loss and time left, after training step `step` (from 0) took `step_s`.
  void show(int64_t step, double step_s, double loss);
  void clear();

 private:
  std::string label_;
  int64_t steps_;
  int64_t images_per_step_;
  bool terminal_;
  double smoothed_step_s_ = 0;
  std::chrono::steady_clock::time_point last_shown_{};
};

}  // namespace noisemark::suite
