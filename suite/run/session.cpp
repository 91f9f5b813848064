#include "suite/run/session.h"

#include <ATen/Context.h>

#include "suite/io/safetensors.h"
#include "suite/train/named_parameters.h"

namespace noisemark::suite {

std::string variant_label(const Variant& variant) {
  return variant.mode + "-" + variant.baseline + "-" + variant.precision.name;
}

Session make_session(const SessionOptions& options) {
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
  Session session;
  session.mode = memopt::make_mode(variant.mode);
  session.trainer = std::make_unique<Trainer>(options.definition, std::move(model), options.dataset,
                                              *session.mode, trainer);
  return session;
}

}  // namespace noisemark::suite
