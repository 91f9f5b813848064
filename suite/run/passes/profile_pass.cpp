#include "suite/run/passes/profile_pass.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "memopt/device/device_clock.h"
#include "suite/environment/gpu_counters.h"
#include "suite/environment/pm_sampling.h"
#include "suite/probes/device_window.h"
#include "suite/probes/flop_counter.h"
#include "suite/probes/operator_profile.h"
#include "suite/probes/peaks.h"
#include "suite/probes/wide_operators.h"
#include "suite/run/passes/owners.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kFewest = 3;
constexpr int64_t kMost = 100'000;
/// The number of first steps, in which libraries choose, memory is taken and a graph is recorded.
constexpr int64_t kWarmup = 8;

const char* const kPass = "GPU window";
const char* const kSampledPass = "GPU counters";

int64_t warmup_steps(const SessionOptions& options) {
  return kWarmup + options.spec.mode.forwards_until_steady;
}

/// The training session and what watches over it.
struct Training {
  Trainer& trainer;
  memopt::DeviceClock& clock;
  const PassWatch& watch;
};

/// Trains the first steps and returns what the last of them took.
double warm_up(const Training& in, int64_t steps) {
  while (in.trainer.next_step() + 1 < steps) {
    in.watch.before_step(kPass, in.trainer.next_step(), steps);
    (void)in.trainer.step();
  }
  in.clock.synchronize();
  const auto begin = in.clock.mark();
  (void)in.trainer.step();
  const auto end = in.clock.mark();
  in.clock.synchronize();
  return in.clock.seconds_between(begin, end);
}

void train(const Training& in, int64_t steps, const char* pass) {
  const int64_t first = in.trainer.next_step();
  for (int64_t i = 0; i < steps; ++i) {
    in.watch.before_step(pass, first + i, first + steps);
    (void)in.trainer.step();
  }
  in.clock.synchronize();
}

DeviceWindow read_beside(const Training& in, int ordinal, int64_t steps) {
  const auto counters = make_gpu_counters(ordinal);
  DeviceWatch reading(*counters);
  train(in, steps, kPass);
  return reading.stop();
}

/// Asks CUPTI only now, so that the window before knows nothing of it.
std::vector<SampledShare> sample_beside(const Training& in, int ordinal, double step_s,
                                        double window_s) {
  const int64_t steps = steps_of_window(step_s, window_s);
  const auto counters = make_sampled_counters(ordinal);
  return sample_windows(*counters, window_s, [&] { train(in, steps, kSampledPass); });
}

}  // namespace

int64_t steps_of_window(double step_s, double window_s) {
  if (!(step_s > 0)) return kFewest;
  const double steps = std::ceil(window_s / step_s);
  if (steps >= static_cast<double>(kMost)) return kMost;
  return std::max(kFewest, static_cast<int64_t>(steps));
}

DeviceReadings device_pass(const SessionOptions& options, const PassWatch& watch, double window_s) {
  const c10::Device device = options.spec.device;
  const int64_t warmup = warmup_steps(options);
  SessionOptions own = options;
  const auto windows = static_cast<int64_t>(1 + sampled_metrics().size());
  own.spec.definition.train.steps = warmup + kMost * windows;
  own.timed = true;
  const Session session = make_session(own);
  const auto clock = memopt::make_device_clock(device);
  const int ordinal = device.has_index() ? device.index() : 0;
  DeviceReadings readings;
  name_owners_when_full(*session.trainer, [&] {
    const Training in{*session.trainer, *clock, watch};
    const double step_s = warm_up(in, warmup);
    readings.steps = steps_of_window(step_s, window_s);
    readings.window = read_beside(in, ordinal, readings.steps);
    readings.window.sampled =
        sample_beside(in, ordinal, step_s, std::min(window_s, kSampledWindow_s));
  });
  return readings;
}

namespace {

/// Enough for the sizes at which two cores reach their peak, and little beside the smallest
/// benchmarks.
constexpr double kGemmSeconds = 0.5;

/// All that profile_operators() makes, and the one whose operations are counted.
int64_t steps_of(const SessionOptions& options) {
  return steps_of_profile(options.spec.device, options.spec.definition.measure.profile_steps) + 1;
}

void describe(const WideOperators& watch, int64_t accumulation, reports::MixedPrecision& mixed) {
  mixed.operators = watch.operators() / accumulation;
  mixed.wide = watch.wide();
  for (reports::WideOperator& one : mixed.wide) {
    one.calls /= accumulation;
    one.result_bytes /= accumulation;
  }
  mixed.measured = true;
  mixed.missing_reason.clear();
}

/// The operations of a step, and what autocast let stay in float32.
void count_operators(const SessionOptions& options, Trainer& trainer,
                     reports::Utilization& utilization, reports::MixedPrecision* mixed) {
  const int64_t batch = options.spec.definition.train.batch;
  const std::optional<at::ScalarType> narrow = options.spec.precision.autocast;
  FlopCounter counter;
  std::optional<WideOperators> watch;
  if (narrow) watch.emplace(options.spec.device.type(), *narrow);
  (void)trainer.step({&counter});
  if (watch && mixed != nullptr)
    describe(*watch, options.spec.definition.train.accumulation, *mixed);
  utilization.forward_flop_per_image = counter.of(Phase::kForward) / batch;
  utilization.backward_flop_per_image = counter.of(Phase::kBackward) / batch;
}

/// Everything that is counted in the trainer's steps. Returns how busy a GPU was in them.
std::optional<BusyTime> measure_steps(const SessionOptions& options, Trainer& trainer,
                                      const PassWatch& watch, reports::Utilization& utilization,
                                      reports::MixedPrecision* mixed) {
  ProfileOptions how;
  how.steps = static_cast<int>(options.spec.definition.measure.profile_steps);
  const int64_t steps = steps_of(options);
  const auto step = [&] {
    watch.before_step("profile pass", trainer.next_step(), steps);
    (void)trainer.step();
  };
  const OperatorProfile profile = profile_operators(step, options.spec.device, how);
  utilization.operators = profile.operators;
  utilization.convolutions = profile.convolutions;
  utilization.profiler_overhead_frac = profile.overhead_frac;
  watch.before_step("profile pass", trainer.next_step(), steps);
  count_operators(options, trainer, utilization, mixed);
  return profile.busy;
}

void measure_peak(const RunSpec& spec, const PassWatch& watch, reports::Utilization& utilization) {
  watch.line.say("profile pass, fastest matrix product");
  const Precision& precision = spec.precision;
  const at::ScalarType type = precision.autocast.value_or(precision.weights);
  const GemmPeak peak = measure_gemm_peak(spec.device, type, kGemmSeconds);
  utilization.gemm_peak_flop_per_s = peak.flop_per_s;
  utilization.gemm_peak_method = gemm_peak_method(peak);
}

/// Combines what was read of a GPU with what was counted of the same steps.
reports::DeviceUse use_of(const DeviceReadings& readings, const reports::Utilization& counted,
                          const std::optional<BusyTime>& busy, int64_t batch) {
  WindowWork work;
  work.steps = readings.steps;
  work.images = readings.steps * batch;
  work.busy = busy;
  if (!busy) work.busy_missing = "the profiler saw nothing on the GPU";
  work.peak_flop_per_s = counted.gemm_peak_flop_per_s;
  const int64_t per_image = counted.forward_flop_per_image + counted.backward_flop_per_image;
  work.flop = static_cast<double>(per_image) * static_cast<double>(work.images);
  return device_use(readings.window, work);
}

}  // namespace

reports::Utilization profile_pass(const SessionOptions& options, const PassWatch& watch,
                                  reports::MixedPrecision* mixed) {
  std::optional<DeviceReadings> readings;
  if (options.spec.device.is_cuda()) readings = device_pass(options, watch);
  SessionOptions own = options;
  own.spec.definition.train.steps = steps_of(options);
  reports::Utilization utilization;
  std::optional<BusyTime> busy;
  {
    const Session session = make_session(own);
    Trainer& trainer = *session.trainer;
    name_owners_when_full(trainer, [&] {
      busy = measure_steps(options, trainer, watch, utilization, mixed);
      measure_peak(options.spec, watch, utilization);
    });
  }
  if (readings) {
    utilization.device_use =
        use_of(*readings, utilization, busy, options.spec.definition.train.batch);
  }
  utilization.measured = true;
  return utilization;
}

void add_achieved(reports::Utilization& utilization, double images_per_s) {
  const auto flop =
      static_cast<double>(utilization.forward_flop_per_image + utilization.backward_flop_per_image);
  utilization.achieved_flop_per_s = flop * images_per_s;
  utilization.mfu_frac = utilization.achieved_flop_per_s / utilization.gemm_peak_flop_per_s;
}

}  // namespace noisemark::suite
