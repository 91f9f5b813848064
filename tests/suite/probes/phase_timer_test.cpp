#include "suite/probes/phase_timer.h"

#include <sched.h>

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace noisemark::suite {
namespace {

constexpr double kPauseS = 0.004;

void pause() {
  std::this_thread::sleep_for(std::chrono::duration<double>(kPauseS));
}

void run_phase(StepObserver& observer, Phase phase) {
  observer.on_phase_begin(phase);
  pause();
  observer.on_phase_end(phase);
}

TEST(PhaseTimer, keeps_one_sample_of_each_phase_per_step) {
  PhaseTimer timer(c10::Device("cpu"));
  for (int64_t step = 0; step < 2; ++step) {
    timer.on_step_begin(step);
    for (const Phase phase :
         {Phase::kData, Phase::kForward, Phase::kBackward, Phase::kOptimizer, Phase::kEma}) {
      run_phase(timer, phase);
    }
    timer.on_step_end(step);
  }
  const reports::Samples& samples = timer.samples();
  ASSERT_EQ(samples.step_s.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const double parts = samples.data_wait_s[i] + samples.forward_s[i] + samples.backward_s[i] +
                         samples.optimizer_s[i] + samples.ema_s[i];
    EXPECT_GE(samples.data_wait_s[i], kPauseS);
    EXPECT_GE(samples.ema_s[i], kPauseS);
    EXPECT_GE(samples.step_s[i], parts);
  }
}

TEST(PhaseTimer, adds_up_the_micro_batches_of_a_phase) {
  PhaseTimer timer(c10::Device("cpu"));
  timer.on_step_begin(0);
  for (int i = 0; i < 3; ++i) {
    run_phase(timer, Phase::kForward);
    run_phase(timer, Phase::kBackward);
  }
  timer.on_step_end(0);
  EXPECT_GE(timer.samples().forward_s.at(0), 3 * kPauseS);
  EXPECT_GE(timer.samples().backward_s.at(0), 3 * kPauseS);
  EXPECT_EQ(timer.samples().ema_s.at(0), 0);
}

TEST(PhaseTimer, leaves_a_step_that_failed_out) {
  PhaseTimer timer(c10::Device("cpu"));
  timer.on_step_begin(0);
  timer.on_phase_begin(Phase::kForward);
  timer.on_step_begin(1);
  run_phase(timer, Phase::kData);
  timer.on_step_end(1);
  EXPECT_EQ(timer.samples().step_s.size(), 1U);
  EXPECT_EQ(timer.samples().forward_s.at(0), 0);
}

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Keeps this thread, and those that it starts, on one processor.
class OneProcessor {
 public:
  OneProcessor() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OneProcessor() { sched_setaffinity(0, sizeof(before_), &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

std::chrono::nanoseconds time_on_processor() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void spend(std::chrono::nanoseconds on_processor) {
  const auto end = time_on_processor() + on_processor;
  while (time_on_processor() < end) {
  }
}

TEST(PhaseTimer, counts_the_time_of_all_threads_on_processors_and_no_waiting) {
  PhaseTimer timer(c10::kCPU);
  timer.on_step_begin(0);
  std::thread beside([] { spend(milliseconds(60)); });
  spend(milliseconds(40));
  beside.join();
  timer.on_step_end(0);
  timer.on_step_begin(1);
  std::this_thread::sleep_for(milliseconds(100));
  timer.on_step_end(1);
  ASSERT_EQ(timer.processor_s().size(), 2U);
  // Reading the clock and starting a thread add less than a tenth, also under a sanitizer.
  EXPECT_GE(timer.processor_s()[0], 0.100);
  EXPECT_LT(timer.processor_s()[0], 0.110);
  EXPECT_LT(timer.processor_s()[1], 0.010);
}

reports::Result four_steps() {
  reports::Result result;
  result.samples.step_s = {9, 1, 2, 5};
  result.protocol.warmup_steps = 1;
  result.identity.threads = 2;
  return result;
}

TEST(CpuMetric, is_the_time_on_processors_over_that_of_all_threads_after_the_warmup) {
  const reports::Metric metric = cpu_metric({18, 2, 1, 5}, four_steps());
  EXPECT_EQ(metric.name, "cpu_frac");
  EXPECT_EQ(metric.value, 0.5) << "(2 + 1 + 5) / (1 + 2 + 5) / 2 threads";
  EXPECT_EQ(metric.n, 3);
}

TEST(CpuMetric, of_a_resumed_run_is_that_of_the_steps_that_this_process_made) {
  const reports::Metric metric = cpu_metric({1, 6}, four_steps());
  EXPECT_EQ(metric.value, 0.5) << "(1 + 6) / (2 + 5) / 2 threads";
  EXPECT_EQ(metric.n, 2);
}

TEST(CpuMetric, is_missing_with_its_reason_where_no_step_is_behind_the_warmup) {
  reports::Result result = four_steps();
  result.protocol.warmup_steps = 4;
  for (const reports::Metric& metric :
       {cpu_metric({18, 2, 1, 5}, result), cpu_metric({}, four_steps())}) {
    EXPECT_FALSE(metric.value);
    EXPECT_EQ(metric.missing_reason, "no step after the warm-up");
  }
}

TEST(SlowDown, makes_a_step_take_at_least_the_fraction_longer) {
  SlowDown slow_down(c10::kCPU, 1.5);
  const Clock::time_point begin = Clock::now();
  slow_down.on_step_begin(0);
  std::this_thread::sleep_for(milliseconds(20));
  slow_down.on_step_end(0);
  // No upper bound: a busy machine may take any time.
  EXPECT_GE(Clock::now() - begin, milliseconds(50));
}

TEST(SlowDown, is_no_shorter_for_what_runs_beside_it) {
  const OneProcessor shared;
  std::atomic<bool> done{false};
  std::thread beside([&] {
    while (!done) {
    }
  });
  SlowDown slow_down(c10::kCPU, 2);
  slow_down.on_step_begin(0);
  std::this_thread::sleep_for(milliseconds(100));
  const auto before = time_on_processor();
  slow_down.on_step_end(0);
  const auto taken = time_on_processor() - before;
  done = true;
  beside.join();
  EXPECT_GE(taken, milliseconds(200));
}

TEST(SlowDown, refuses_to_speed_up) {
  EXPECT_THROW(SlowDown(c10::kCPU, -0.1), std::logic_error);
}

}  // namespace

}  // namespace noisemark::suite
