#include "suite/run/profile_pass.h"

#include "suite/probes/flop_counter.h"
#include "suite/probes/gemm_peak.h"
#include "suite/probes/operator_profile.h"

namespace noisemark::suite {
namespace {

constexpr double kGemmSeconds = 1.5;

/// More than this pass makes: its loader must not run dry.
constexpr int64_t kSessionSteps = 1000;

void count_flops(Trainer& trainer, int64_t batch, reports::Utilization& utilization) {
  FlopCounter counter;
  (void)trainer.step({&counter});
  utilization.forward_flop_per_image = counter.of(Phase::kForward) / batch;
  utilization.backward_flop_per_image = counter.of(Phase::kBackward) / batch;
}

}  // namespace

reports::Utilization profile_pass(const SessionOptions& options) {
  SessionOptions own = options;
  own.definition.train.steps = kSessionSteps;
  const Session session = make_session(own);
  Trainer& trainer = *session.trainer;
  reports::Utilization utilization;
  ProfileOptions how;
  how.steps = static_cast<int>(options.definition.measure.profile_steps);
  const OperatorProfile profile =
      profile_operators([&trainer] { (void)trainer.step(); }, options.variant.device, how);
  utilization.operators = profile.operators;
  utilization.profiler_overhead_frac = profile.overhead_frac;
  count_flops(trainer, own.definition.train.batch, utilization);
  const Precision& precision = options.variant.precision;
  const at::ScalarType type = precision.autocast.value_or(precision.weights);
  utilization.gemm_peak_flop_per_s = measure_gemm_peak(options.variant.device, type, kGemmSeconds);
  utilization.gemm_peak_method = gemm_peak_method(options.variant.device);
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
