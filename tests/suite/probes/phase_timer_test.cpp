#include "suite/probes/phase_timer.h"

#include <gtest/gtest.h>

#include <chrono>
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

}  // namespace
}  // namespace noisemark::suite
