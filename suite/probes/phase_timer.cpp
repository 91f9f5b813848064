#include "suite/probes/phase_timer.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <stdexcept>

#include "memopt/device/device_clock.h"
#include "reports/result/metrics.h"

namespace noisemark::suite {
namespace {

/// The time on processors, by one of Linux's clocks of a thread or a process.
std::chrono::nanoseconds time_by(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

PhaseTimer::PhaseTimer(c10::Device device) : clock_(memopt::make_device_clock(device)) {}

void PhaseTimer::on_step_begin(int64_t /*step*/) {
  parts_.clear();
  clock_->clear();
  clock_->synchronize();
  processor_begin_ = time_by(CLOCK_PROCESS_CPUTIME_ID);
  step_begin_ = clock_->mark();
}

void PhaseTimer::on_phase_begin(Phase /*phase*/) {
  phase_begin_ = clock_->mark();
}

void PhaseTimer::on_phase_end(Phase phase) {
  parts_.push_back({phase, phase_begin_, clock_->mark()});
}

void PhaseTimer::on_step_end(int64_t /*step*/) {
  const Mark end = clock_->mark();
  clock_->synchronize();
  const std::chrono::nanoseconds on_processors =
      time_by(CLOCK_PROCESS_CPUTIME_ID) - processor_begin_;
  processor_s_.push_back(std::chrono::duration<double>(on_processors).count());
  std::array<double, reports::kSamplePhases.size()> seconds{};  // one sum for each Phase
  for (const Part& part : parts_) {
    seconds[static_cast<size_t>(part.phase)] += clock_->seconds_between(part.begin, part.end);
  }
  samples_.step_s.push_back(clock_->seconds_between(step_begin_, end));
  for (size_t i = 0; i < seconds.size(); ++i) {
    (samples_.*reports::kSamplePhases[i].seconds).push_back(seconds[i]);
  }
}

reports::Metric cpu_metric(const std::vector<double>& processor_s, const reports::Result& result) {
  const std::vector<double>& step_s = result.samples.step_s;
  const auto warmup = static_cast<size_t>(result.protocol.warmup_steps);
  const size_t first = step_s.size() - std::min(step_s.size(), processor_s.size());
  double busy_s = 0;
  double wall_s = 0;
  int64_t steps = 0;
  for (size_t i = std::max(first, warmup); i < step_s.size(); ++i, ++steps) {
    busy_s += processor_s[i - first];
    wall_s += step_s[i];
  }
  const auto threads = static_cast<double>(result.identity.threads);
  if (!(wall_s * threads > 0)) {
    return reports::metric_named("cpu_frac", {.missing_reason = "no step after the warm-up"});
  }
  return reports::metric_named(
      "cpu_frac",
      {.value = busy_s / wall_s / threads,
       .statistic = "over one window",
       .n = steps,
       .method = "CLOCK_PROCESS_CPUTIME_ID over the steps after the warm-up, the loader's and the "
                 "driver's threads included / (their wall time x LibTorch's threads)"});
}

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

SlowDown::SlowDown(c10::Device device, double frac)
    : clock_(memopt::make_device_clock(device)), frac_(frac) {
  if (!(frac >= 0)) throw std::logic_error("slow-down: a negative fraction");
}

void SlowDown::on_step_begin(int64_t /*step*/) {
  clock_->synchronize();
  begin_ = Clock::now();
}

void SlowDown::on_step_end(int64_t /*step*/) {
  clock_->synchronize();
  const auto longer =
      std::chrono::duration_cast<std::chrono::nanoseconds>((Clock::now() - begin_) * frac_);
  const std::chrono::nanoseconds end = time_by(CLOCK_THREAD_CPUTIME_ID) + longer;
  while (time_by(CLOCK_THREAD_CPUTIME_ID) < end) {
  }
}

}  // namespace noisemark::suite
