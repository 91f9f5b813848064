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

void Progress::show(int64_t step, double step_s, double loss) {
  smoothed_step_s_ =
      smoothed_step_s_ == 0 ? step_s : (1 - kSmoothing) * smoothed_step_s_ + kSmoothing * step_s;
  const auto now = std::chrono::steady_clock::now();
  const bool last = step + 1 == steps_;
  if (!terminal_ || (!last && now - last_shown_ < kShowEvery)) return;
  last_shown_ = now;
  const double rate = static_cast<double>(images_per_step_) / smoothed_step_s_;
  const double left_s = static_cast<double>(steps_ - step - 1) * smoothed_step_s_;
  fmt::print(stderr, "\r\033[K{}: step {}/{}, {:.1f} images/s, loss {:.4f}, {} left", label_,
             step + 1, steps_, rate, loss, remaining_text(left_s));
  std::fflush(stderr);
}

}  // namespace noisemark::suite
