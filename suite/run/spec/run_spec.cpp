#include "suite/run/spec/run_spec.h"

#include <fmt/ranges.h>

#include "baselines/device_parts.h"
#include "memopt/modes/mode_grammar.h"
#include "reports/base/error.h"
#include "reports/profile/limit.h"

namespace noisemark::suite {
namespace {

/// A budget promises its error of the step that it was planned by; another one has other values.
constexpr double kBudgetSlack = 2;

/// Checks what only a GPU does, and a mode whose steps need the host.
void require_gpu(const RunSpec& spec) {
  const auto& [name, execution] = spec.baseline;
  if (!execution.cuda_graph && !execution.autotuned) return;
  if (!spec.device.is_cuda()) {
    throw bad_input("--baseline", "", name + " on " + spec.device.str(),
                    "cuda-graph and autotuned take a CUDA device");
  }
  if (execution.autotuned && spec.deterministic) {
    throw bad_input("--baseline", "", name + " with --deterministic",
                    "autotuned may choose another algorithm each time");
  }
  if (!execution.cuda_graph || spec.mode.needs_host.empty()) return;
  throw bad_input("--baseline", "",
                  name + " under mode " + spec.mode.name + ": " + spec.mode.needs_host,
                  "cuda-graph takes modes whose steps need no host");
}

}  // namespace

ModeSpec resolve_mode(const std::string& spelling) {
  const std::unique_ptr<memopt::Mode> mode = memopt::make_mode(spelling);
  ModeSpec spec{mode->name(), mode->lossless(), mode->forwards_until_steady(),
                memopt::why_host_is_needed(mode->name()), std::nullopt};
  if (spec.name.starts_with(memopt::kBudgetPrefix)) spec.budget = memopt::parse_budget(spec.name);
  if (!spec.lossless) {
    spec.gradient_bound = spec.budget ? kBudgetSlack * spec.budget->error.value()
                                      : memopt::parse_mode(spec.name).rounding()->gradient_bound;
  }
  return spec;
}

BaselineSpec resolve_baseline(const std::string& spelling) {
  return {spelling, baselines::parse_baseline(spelling)};
}

double gradient_bound(const RunSpec& spec) {
  const double defined = spec.definition.quality.gradient_error_max;
  return defined > 0 ? defined : spec.mode.gradient_bound;
}

std::string variant_label(const RunSpec& spec) {
  return spec.mode.name + "-" + spec.baseline.name + "-" + spec.precision.name;
}

void require_kernels(const RunSpec& spec) {
  require_gpu(spec);
  if (!spec.baseline.execution.fused) return;
  const bool has_kernels = reports::has_fused_kernels(spec.precision.name);
  if (has_kernels && baselines::find_norm_device(spec.device) != nullptr) return;
  throw bad_input("--baseline", "",
                  spec.baseline.name + " in " + spec.precision.name + " on " + spec.device.str(),
                  fmt::format("fused takes the CPU or CUDA, in {}",
                              fmt::join(reports::kFusedPrecisions, ", ")));
}

}  // namespace noisemark::suite
