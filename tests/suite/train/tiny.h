#pragma once

#include <memory>
#include <vector>

#include "baselines/ops.h"
#include "memopt/modes/mode.h"
#include "suite/config/definition.h"
#include "suite/data/dataset.h"
#include "suite/io/safetensors.h"
#include "suite/models/denoiser.h"
#include "suite/train/observer.h"
#include "suite/train/trainer.h"

/// The smallest real training session: a lucid U-Net of 8 channels on the analytic mixture.
namespace noisemark::suite::test {

inline Definition tiny_definition() {
  Definition definition;
  definition.id = "tiny";
  definition.scale = "cpu";
  definition.seed = 7;
  definition.model.name = "lucid-unet";
  definition.model.channels = 1;
  definition.model.resolution = 16;
  definition.model.dim = 8;
  definition.model.dim_mults = {1, 2};
  definition.model.dropout = 0.1;
  definition.data.name = "gmm16";
  definition.data.train_samples = 64;
  definition.diffusion.schedule = "sigmoid";
  definition.diffusion.objective = "v";
  definition.optimizer.clip_norm = 1.0;
  definition.optimizer.lr = 1e-3;
  definition.ema.kind = "constant";
  definition.ema.decay = 0.9;
  definition.train.batch = 4;
  definition.train.steps = 8;
  definition.eval.samples = 8;
  return definition;
}

/// Both kinds of average. Of "power" one whose warm-up and pace show within ten steps: copies until
/// step 3, then every second step, so that the last update can be of earlier weights.
inline std::vector<EmaConfig> tiny_averages() {
  EmaConfig config;
  config.decay = 0.9;
  config.update_every = 2;
  config.update_after_step = 3;
  std::vector<EmaConfig> averages;
  for (const char* kind : {"constant", "power"}) {
    averages.push_back(config);
    averages.back().kind = kind;
  }
  return averages;
}

struct TinySession {
  explicit TinySession(const Definition& definition, const std::string& precision = "fp32",
                       at::Device device = at::kCPU)
      : TinySession(definition, options_of(parse_precision(precision, device), device)) {}

  TinySession(const Definition& definition, const TrainerOptions& options,
              const std::string& mode_name = "none")
      : TinySession(definition, options, memopt::make_mode(mode_name)) {}

  TinySession(const Definition& definition, const TrainerOptions& options,
              std::unique_ptr<memopt::Mode> own_mode)
      : mode(std::move(own_mode)) {
    at::manual_seed(definition.seed);
    trainer = std::make_unique<Trainer>(definition,
                                        make_denoiser(definition.model, baselines::plain_ops()),
                                        open_dataset(definition, ""), *mode, options);
  }

  static TrainerOptions options_of(const Precision& precision, at::Device device) {
    TrainerOptions options;
    options.device = device;
    options.precision = precision;
    return options;
  }

  std::unique_ptr<memopt::Mode> mode;
  std::unique_ptr<Trainer> trainer;
};

/// Keeps the gradients that the optimizer is given in the last step.
class LastGradients final : public StepObserver {
 public:
  explicit LastGradients(const Trainer& trainer) : trainer_(trainer) {}
  void on_step_begin(int64_t /*step*/) override {}
  void on_phase_begin(Phase phase) override {
    if (phase != Phase::kOptimizer) return;
    gradients_.clear();
    for (const auto& [name, parameter] : trainer_.parameters()) {
      gradients_.emplace_back(name, parameter.grad().clone());
    }
  }
  void on_phase_end(Phase /*phase*/) override {}
  void on_step_end(int64_t /*step*/) override {}
  [[nodiscard]] const NamedTensors& gradients() const { return gradients_; }

 private:
  const Trainer& trainer_;
  NamedTensors gradients_;
};

}  // namespace noisemark::suite::test
