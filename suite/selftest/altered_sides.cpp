#include "suite/selftest/altered_sides.h"

#include <optional>
#include <utility>
#include <vector>

#include "reports/gate.h"
#include "suite/run/metrics.h"

namespace noisemark::suite {
namespace {

void derive_again(reports::Result& result) {
  std::optional<int64_t> skipped_steps;
  const reports::Metric* skipped = reports::find_metric(result, "skipped_steps");
  if (skipped != nullptr && skipped->value) skipped_steps = static_cast<int64_t>(*skipped->value);
  std::vector<reports::Metric> derived = derive_metrics(result, skipped_steps);
  // How a figure was made is worded by the program that recorded it.
  for (reports::Metric& metric : derived) {
    const reports::Metric* recorded = reports::find_metric(result, metric.name);
    if (recorded != nullptr && recorded->value && metric.value) metric.method = recorded->method;
  }
  result.metrics = std::move(derived);
}

}  // namespace

reports::Side slowed(reports::Side side, double frac) {
  for (reports::NamedResult& run : side.runs) {
    reports::Samples& samples = run.result.samples;
    for (std::vector<double>* seconds :
         {&samples.step_s, &samples.data_wait_s, &samples.forward_s, &samples.backward_s,
          &samples.optimizer_s, &samples.ema_s}) {
      for (double& value : *seconds) value *= 1 + frac;
    }
    derive_again(run.result);
  }
  return side;
}

}  // namespace noisemark::suite
