#include "suite/quality/validation.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>

#include "reports/base/error.h"
#include "suite/data/gaussian_mixture.h"
#include "suite/models/denoiser.h"
#include "suite/random/counter_rng.h"

namespace noisemark::suite {
namespace {

/// Samples [begin, begin + n) of the validation set, on the CPU.
struct Draws {
  at::Tensor x0;     ///< [n, C, H, W], float32
  at::Tensor t;      ///< [n], int64
  at::Tensor noise;  ///< [n, C, H, W], float32
};

/// One value per sample, in the order of the samples.
struct Losses {
  std::vector<double> plain;
  std::vector<double> weighted;
  std::vector<double> optimal;  ///< is empty where it is not known
};

void append(const at::Tensor& values, std::vector<double>& to) {
  const at::Tensor host = values.to(at::kCPU, at::kDouble).contiguous();
  const auto* begin = host.const_data_ptr<double>();
  to.insert(to.end(), begin, begin + host.numel());
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Means of samples 0, 8, 16 ...; 1, 9, 17 ...; and so on.
std::vector<double> mean_per_timestep(const std::vector<double>& values) {
  std::vector<double> means(kEvaluationTimesteps, 0.0);
  for (size_t i = 0; i < values.size(); ++i) means[i % kEvaluationTimesteps] += values[i];
  const double per_timestep =
      static_cast<double>(values.size()) / static_cast<double>(kEvaluationTimesteps);
  for (double& sum : means) sum /= per_timestep;
  return means;
}

class Validation {
 public:
  Validation(const DiffusionProcess& process, const Dataset& dataset, const Definition& definition,
             const EvaluationOptions& options)
      : process_(process),
        dataset_(dataset),
        definition_(definition),
        options_(options),
        timesteps_(evaluation_timesteps(process.timesteps())) {
    require_evaluation_samples(definition, dataset);
    const int64_t samples = definition.eval.samples;
    TORCH_CHECK(samples > 0 && samples % kEvaluationTimesteps == 0,
                "every timestep needs as many samples as the others");
  }

  [[nodiscard]] reports::Evaluation run(Denoiser& model) const {
    const int64_t batch = options_.batch > 0
                              ? options_.batch
                              : definition_.train.batch / definition_.train.accumulation;
    Losses losses;
    for (int64_t begin = 0; begin < definition_.eval.samples; begin += batch) {
      if (options_.before_batch) options_.before_batch(begin);
      const Draws draws = draw(begin, std::min(batch, definition_.eval.samples - begin));
      add_losses(model, draws, losses);
      add_optimal(draws, losses);
    }
    return summarize(losses);
  }

 private:
  [[nodiscard]] Draws draw(int64_t begin, int64_t count) const;
  [[nodiscard]] at::Tensor to_device(const at::Tensor& pictures) const;
  void add_losses(Denoiser& model, const Draws& draws, Losses& losses) const;
  void add_optimal(const Draws& draws, Losses& losses) const;
  [[nodiscard]] reports::Evaluation summarize(const Losses& losses) const;

  const DiffusionProcess& process_;
  const Dataset& dataset_;
  const Definition& definition_;
  const EvaluationOptions& options_;
  std::vector<int64_t> timesteps_;
};

Draws Validation::draw(int64_t begin, int64_t count) const {
  const std::vector<int64_t> shape{count, dataset_.channels(), dataset_.resolution(),
                                   dataset_.resolution()};
  Draws draws{at::empty(shape, at::kFloat), at::empty({count}, at::kLong),
              at::empty(shape, at::kFloat)};
  const int64_t values = draws.x0.numel() / count;
  auto* x0 = draws.x0.mutable_data_ptr<float>();
  auto* noise = draws.noise.mutable_data_ptr<float>();
  auto* t = draws.t.mutable_data_ptr<int64_t>();
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t sample = begin + i;
      const auto length = static_cast<size_t>(values);
      dataset_.read(Split::kTest, sample, std::span(x0 + i * values, length));
      CounterRng(definition_.seed, Stream::kEvalNoise, 0, static_cast<uint64_t>(sample))
          .fill_normal(std::span(noise + i * values, length));
      t[i] = timesteps_[static_cast<size_t>(sample % kEvaluationTimesteps)];
    }
  });
  return draws;
}

at::Tensor Validation::to_device(const at::Tensor& pictures) const {
  const at::Tensor moved = pictures.to(options_.device, options_.precision.weights);
  return options_.channels_last ? moved.contiguous(at::MemoryFormat::ChannelsLast) : moved;
}

void Validation::add_losses(Denoiser& model, const Draws& draws, Losses& losses) const {
  const at::Tensor x0 = to_device(draws.x0);
  const at::Tensor noise = to_device(draws.noise);
  const at::Tensor t = draws.t.to(options_.device);
  const at::Tensor noisy = process_.q_sample(x0, t, noise);
  at::Tensor prediction;
  {
    const AutocastGuard autocast(options_.precision, options_.device);
    prediction = model.forward(noisy, t);
  }
  const at::Tensor plain = process_.sample_losses(prediction, process_.target(x0, t, noise));
  append(plain, losses.plain);
  append(plain.mul(process_.loss_weights(t)), losses.weighted);
}

void Validation::add_optimal(const Draws& draws, Losses& losses) const {
  const GaussianMixture* mixture = dataset_.mixture();
  if (mixture == nullptr) return;
  const at::Tensor alpha_bar =
      process_.buffer("alphas_cumprod").to(at::kCPU, at::kDouble).gather(0, draws.t);
  append(mixture->optimal_losses(draws.x0, draws.noise, alpha_bar, definition_.diffusion.objective),
         losses.optimal);
}

reports::Evaluation Validation::summarize(const Losses& losses) const {
  reports::Evaluation evaluation;
  evaluation.loss = mean(losses.plain);
  evaluation.weighted_loss = mean(losses.weighted);
  evaluation.timesteps = timesteps_;
  evaluation.per_timestep = mean_per_timestep(losses.plain);
  if (!losses.optimal.empty()) {
    const double optimal = mean(losses.optimal);
    evaluation.optimal_per_timestep = mean_per_timestep(losses.optimal);
    evaluation.excess_frac = (evaluation.loss - optimal) / optimal;
  }
  return evaluation;
}

}  // namespace

std::vector<int64_t> evaluation_timesteps(int64_t timesteps) {
  std::vector<int64_t> chosen;
  for (int64_t j = 0; j < kEvaluationTimesteps; ++j) {
    chosen.push_back((2 * j + 1) * timesteps / (2 * kEvaluationTimesteps));
  }
  return chosen;
}

void require_evaluation_samples(const Definition& definition, const Dataset& dataset) {
  const int64_t available = dataset.size(Split::kTest);
  const int64_t wanted = definition.eval.samples;
  if (wanted <= available) return;
  const std::string found = fmt::format("{}, where the test split has {} of {} images", wanted,
                                        available, dataset.size(Split::kTrain) + available);
  const std::string multiple = fmt::format("a multiple of {}", kEvaluationTimesteps);
  const int64_t largest = available - available % kEvaluationTimesteps;
  if (largest == 0) {
    throw bad_input(
        definition.id, "eval.samples", found,
        fmt::format("{0}: --set eval.samples={1} needs {2}", multiple, kEvaluationTimesteps,
                    dataset.needed_for_test(kEvaluationTimesteps)));
  }
  const std::string more = dataset.needed_for_test(wanted);
  throw bad_input(definition.id, "eval.samples", found,
                  fmt::format("{0} up to {1}: --set eval.samples={1}{2}", multiple, largest,
                              more.empty() ? "" : "; or " + more));
}

reports::Evaluation evaluate(Denoiser& model, const DiffusionProcess& process,
                             const Dataset& dataset, const Definition& definition,
                             const EvaluationOptions& options) {
  const at::NoGradGuard no_gradients;
  const EvaluationModeGuard evaluation_mode(model);
  return Validation(process, dataset, definition, options).run(model);
}

}  // namespace noisemark::suite
