#include "suite/run/session.h"

#include <ATen/Context.h>

#include "suite/io/safetensors.h"
#include "suite/run/build_memory.h"
#include "suite/run/out_of_memory.h"
#include "suite/train/named_parameters.h"

namespace noisemark::suite {
namespace {

Session build(const SessionOptions& options, BuildMemory& memory) {
  const Variant& variant = options.variant;
  const baselines::Execution execution = baselines::parse_baseline(variant.baseline);
  at::manual_seed(options.definition.seed);
  std::shared_ptr<Denoiser> model = make_denoiser(options.definition.model, execution.ops());
  if (!options.init_weights.empty()) {
    copy_by_name(read_safetensors(options.init_weights).tensors, named_parameters(*model),
                 options.init_weights);
  }
  TrainerOptions trainer;
  trainer.device = variant.device;
  trainer.precision = variant.precision;
  trainer.channels_last = execution.channels_last;
  trainer.loader.threads = options.loader_threads;
  trainer.fault = options.fault;
  if (options.timed && execution.cuda_graph) trainer.make_graph = baselines::make_device_graph;
  Session session;
  session.mode = memopt::make_mode(variant.mode);
  session.trainer = std::make_unique<Trainer>(options.definition, std::move(model), options.dataset,
                                              *session.mode, trainer, &memory);
  return session;
}

}  // namespace

std::string variant_label(const Variant& variant) {
  return variant.mode + "-" + variant.baseline + "-" + variant.precision.name;
}

Session make_session(const SessionOptions& options) {
  BuildMemory memory(options.variant.device);
  try {
    return build(options, memory);
  } catch (const std::exception& error) {
    const auto what = failed_allocation(error);
    if (!what) throw;
    throw OutOfMemory(*what + "; held then, while the model was made ready: " + memory.holders());
  }
}

}  // namespace noisemark::suite
