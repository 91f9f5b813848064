#include "suite/run/profile_pass.h"

#include <optional>

#include "suite/probes/flop_counter.h"
#include "suite/probes/gemm_peak.h"
#include "suite/probes/operator_profile.h"
#include "suite/probes/wide_operators.h"
#include "suite/run/device_pass.h"
#include "suite/run/owners.h"

namespace noisemark::suite {
namespace {

/// Enough for the sizes at which two cores reach their peak, and little beside the smallest
/// benchmarks.
constexpr double kGemmSeconds = 0.5;

/// All that profile_operators() makes, and the one whose operations are counted.
int64_t steps_of(const SessionOptions& options) {
  return steps_of_profile(options.variant.device, options.definition.measure.profile_steps) + 1;
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
  const int64_t batch = options.definition.train.batch;
  const std::optional<at::ScalarType> narrow = options.variant.precision.autocast;
  FlopCounter counter;
  std::optional<WideOperators> watch;
  if (narrow) watch.emplace(options.variant.device.type(), *narrow);
  (void)trainer.step({&counter});
  if (watch && mixed != nullptr) describe(*watch, options.definition.train.accumulation, *mixed);
  utilization.forward_flop_per_image = counter.of(Phase::kForward) / batch;
  utilization.backward_flop_per_image = counter.of(Phase::kBackward) / batch;
}

/// Everything that is counted in the trainer's steps. Returns how busy a GPU was in them.
std::optional<BusyTime> measure_steps(const SessionOptions& options, Trainer& trainer,
                                      const PassWatch& watch, reports::Utilization& utilization,
                                      reports::MixedPrecision* mixed) {
  ProfileOptions how;
  how.steps = static_cast<int>(options.definition.measure.profile_steps);
  const int64_t steps = steps_of(options);
  const auto step = [&] {
    watch.before_step("profile pass", trainer.next_step(), steps);
    (void)trainer.step();
  };
  const OperatorProfile profile = profile_operators(step, options.variant.device, how);
  utilization.operators = profile.operators;
  utilization.convolutions = profile.convolutions;
  utilization.profiler_overhead_frac = profile.overhead_frac;
  watch.before_step("profile pass", trainer.next_step(), steps);
  count_operators(options, trainer, utilization, mixed);
  return profile.busy;
}

void measure_peak(const Variant& variant, const PassWatch& watch,
                  reports::Utilization& utilization) {
  watch.line.say("profile pass, fastest matrix product");
  const Precision& precision = variant.precision;
  const at::ScalarType type = precision.autocast.value_or(precision.weights);
  const GemmPeak peak = measure_gemm_peak(variant.device, type, kGemmSeconds);
  utilization.gemm_peak_flop_per_s = peak.flop_per_s;
  utilization.gemm_peak_method = gemm_peak_method(peak);
}

/// What was read of a GPU, with what was counted of the same steps.
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
  if (options.variant.device.is_cuda()) readings = device_pass(options, watch);
  SessionOptions own = options;
  own.definition.train.steps = steps_of(options);
  reports::Utilization utilization;
  std::optional<BusyTime> busy;
  {
    const Session session = make_session(own);
    Trainer& trainer = *session.trainer;
    name_owners_when_full(trainer, [&] {
      busy = measure_steps(options, trainer, watch, utilization, mixed);
      measure_peak(options.variant, watch, utilization);
    });
  }
  if (readings) {
    utilization.device_use = use_of(*readings, utilization, busy, options.definition.train.batch);
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
