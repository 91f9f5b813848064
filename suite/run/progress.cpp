#include "suite/run/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace noisemark::suite {
namespace {

constexpr double kSmoothing = 0.1;
constexpr auto kShowEvery = std::chrono::milliseconds(200);

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

Progress::Progress(std::string label, int64_t steps, int64_t images_per_step)
    : label_(std::move(label)),
      steps_(steps),
      images_per_step_(images_per_step),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (!terminal_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

void Progress::say(const std::string& doing) {
  if (!terminal_) return;
  fmt::print(stderr, "\r\033[K{}: {}", label_, doing);
  std::fflush(stderr);
}

void Progress::show(int64_t step, double step_s, double loss, int64_t evaluations) {
  left_.step(step_s);
  const auto now = std::chrono::steady_clock::now();
  const bool last = step + 1 == steps_;
  if (!terminal_ || (!last && now - last_shown_ < kShowEvery)) return;
  last_shown_ = now;
  const double rate = static_cast<double>(images_per_step_) / left_.step_s();
  const double left_s = left_.seconds(steps_ - step - 1, evaluations);
  fmt::print(stderr, "\r\033[K{}: step {}/{}, {:.1f} images/s, loss {:.4f}, {} left", label_,
             step + 1, steps_, rate, loss, remaining_text(left_s));
  std::fflush(stderr);
}

}  // namespace noisemark::suite
