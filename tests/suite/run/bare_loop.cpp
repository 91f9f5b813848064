/// The training loop that a user would write by hand with this project's parts, without the
/// harness: no trainer, no memory mode, no timers of phases, neither replacement of LibTorch's
/// allocator and engine. It speaks pace.py's protocol, so that `noisemark pace` and it can be timed
/// in one interleaved run: the difference is what the harness costs.
///
///   noisemark_bare_loop ID --data FOLDER --threads N

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "baselines/baseline.h"
#include "suite/diffusion/process.h"
#include "suite/models/denoiser.h"
#include "suite/random/counter_rng.h"
#include "suite/run/single_run.h"
#include "suite/train/adam.h"
#include "suite/train/ema.h"
#include "suite/train/named_parameters.h"

namespace noisemark::suite {
namespace {

class BareLoop {
 public:
  explicit BareLoop(const SessionOptions& options)
      : definition_(options.definition),
        model_(make_model(options)),
        process_(definition_.diffusion, at::kCPU),
        adam_(named_parameters(*model_), definition_.optimizer),
        ema_(named_parameters(*model_), definition_.ema),
        loader_(options.dataset, definition_, loader_options(options)) {}

  double step() {
    const Batch batch = loader_.next();
    at::manual_seed(derive_seed(definition_.seed, Stream::kDropout, step_++));
    at::Tensor noisy, target;
    {
      const at::NoGradGuard no_grad;
      noisy = process_.q_sample(batch.images, batch.timesteps, batch.noise);
      target = process_.target(batch.images, batch.timesteps, batch.noise);
    }
    const at::Tensor loss =
        process_.training_loss(model_->forward(noisy, batch.timesteps), target, batch.timesteps);
    loss.backward();
    clip_gradients(adam_.gradients(), definition_.optimizer.clip_norm);
    adam_.step();
    adam_.release_gradients();
    ema_.update();
    return loss.item<double>();
  }

 private:
  static std::shared_ptr<Denoiser> make_model(const SessionOptions& options) {
    at::manual_seed(options.definition.seed);
    const auto execution = baselines::parse_baseline(options.variant.baseline);
    return make_denoiser(options.definition.model, execution.ops());
  }

  static LoaderOptions loader_options(const SessionOptions& options) {
    LoaderOptions loader;
    loader.threads = options.loader_threads;
    loader.last_step = options.definition.train.steps;
    return loader;
  }

  Definition definition_;
  std::shared_ptr<Denoiser> model_;
  DiffusionProcess process_;
  Adam adam_;
  Ema ema_;
  Loader loader_;
  uint64_t step_ = 0;
};

nlohmann::json take_turn(BareLoop& loop, int64_t steps) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) {
    const Clock::time_point start = Clock::now();
    losses.push_back(loop.step());
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return {{"step_s", seconds}, {"loss", losses}};
}

int serve(const RunOptions& options) {
  const PlannedRun plan = plan_runs(options).front();
  apply_variant(plan.variant);
  SessionOptions session = session_options(options, plan);
  session.definition.train.steps = std::numeric_limits<int32_t>::max();
  BareLoop loop(session);
  std::cout << nlohmann::json{{"ready", true}, {"batch", plan.definition.train.batch}} << std::endl;
  std::string verb;
  for (int64_t steps = 0; std::cin >> verb && verb == "run" && std::cin >> steps;) {
    std::cout << take_turn(loop, steps) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace noisemark::suite

int main(int argc, char** argv) {
  if (argc != 6 || std::string(argv[2]) != "--data" || std::string(argv[4]) != "--threads") {
    std::cerr << "usage: noisemark_bare_loop ID --data FOLDER --threads N\n";
    return 2;
  }
  noisemark::suite::RunOptions options;
  options.id = argv[1];
  options.data = argv[3];
  options.threads = std::stoll(argv[5]);
  try {
    return noisemark::suite::serve(options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
