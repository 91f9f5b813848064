#include "suite/lock/compute.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "baselines/ops.h"
#include "memopt/modes/mode.h"
#include "reports/base/sha256.h"
#include "reports/compare/compare.h"
#include "reports/result/metrics.h"
#include "reports/result/warmup.h"
#include "suite/config/lock.h"
#include "suite/data/cifar10.h"
#include "suite/data/loader.h"
#include "suite/diffusion/process.h"
#include "suite/io/safetensors.h"
#include "suite/models/denoiser.h"
#include "suite/quality/validation.h"
#include "suite/random/counter_rng.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

/// A course of step times, relative to a steady step.
struct Shape {
  int64_t steps = 0;
  double rise = 0;   ///< excess of the first step, which dies away
  double drift = 0;  ///< excess of the last step
  double noise = 0;  ///< most that it adds
};

constexpr double kDecay = 0.8;  // part of the rise that a step leaves

/// Splitmix64 (Steele et al. 2014), uniform in [-1, 1): its numbers depend on `index` alone.
double noise_at(uint64_t index) {
  uint64_t bits = (index + 1) * 0x9E3779B97F4A7C15U;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-52 - 1;
}

std::vector<double> step_times(const Shape& shape) {
  std::vector<double> step_s;
  double rise = shape.rise;
  for (int64_t i = 0; i < shape.steps; ++i) {
    const double progress = static_cast<double>(i) / static_cast<double>(shape.steps);
    step_s.push_back(1 + rise + shape.drift * progress +
                     shape.noise * noise_at(static_cast<uint64_t>(i)));
    rise *= kDecay;
  }
  return step_s;
}

/// Enough of them that each constant of the rule decides about some.
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const int64_t steps : {15, 16, 24, 40, 100, 400}) {
    for (const double rise : {0.0, 0.02, 0.06, 0.3, 2.0}) {
      for (const double drift : {0.0, 0.018, 0.022, 0.1}) {
        for (const double noise : {0.0, 0.004, 0.02, 0.1, 0.4}) {
          all.push_back({steps, rise, drift, noise});
        }
      }
    }
  }
  return all;
}

}  // namespace

std::string judging_text() {
  std::string text;
  for (const Shape& shape : shapes()) {
    const reports::Warmup warmup = reports::detect_warmup(step_times(shape));
    text += fmt::format("warm-up of {} steps, rise {}, drift {}, noise {}: {} {}\n", shape.steps,
                        shape.rise, shape.drift, shape.noise, warmup.steps,
                        warmup.stable ? "stable" : "not stable");
  }
  for (const reports::MetricRow& gated : reports::gated_metrics()) {
    text += fmt::format("{}: margin {}\n", gated.name, gated.gate_margin_frac);
  }
  text += fmt::format("widest margin {}\nalpha {}\n", reports::kWidestMarginFrac,
                      reports::StochasticOptions{}.alpha);
  return text;
}

std::string judging_sha256() {
  return reports::sha256_of(judging_text());
}

namespace {

constexpr int64_t kDataSamples = 256;
constexpr int64_t kOrderSamples = 4096;
constexpr int64_t kOrderEpochs = 2;
constexpr int64_t kTraceBatch = 2;
constexpr int64_t kTraceSteps = 10;
constexpr int64_t kTraceResolution = 32;
constexpr int64_t kEvaluationResolution = 16;

/// One pixel an image, and the pixel says which image it is: exact in float32 up to 2^24.
class IndexPictures final : public Dataset {
 public:
  explicit IndexPictures(int64_t pictures) : pictures_(pictures) {}

  [[nodiscard]] int64_t size(Split /*split*/) const override { return pictures_; }
  void read(Split /*split*/, int64_t index, std::span<float> out) const override {
    out.front() = static_cast<float>(index);
  }
  [[nodiscard]] int64_t channels() const override { return 1; }
  [[nodiscard]] int64_t resolution() const override { return 1; }
  [[nodiscard]] std::vector<reports::DataFile> files() const override { return {}; }
  [[nodiscard]] std::string standing() const override { return "generated"; }

 private:
  int64_t pictures_;
};

int64_t training_pictures(const Definition& definition) {
  if (definition.data.name == "cifar10") return kCifarRecords * 5;
  return open_dataset(definition, "")->size(Split::kTrain);
}

// Indices at positions [begin, begin + kOrderSamples) of the endless training stream.
std::vector<int64_t> served_indices(const Definition& definition, int64_t pictures, int64_t begin) {
  const int64_t batch = definition.train.batch;
  LoaderOptions options;
  options.first_step = begin / batch;
  options.last_step = (begin + kOrderSamples + batch - 1) / batch;
  Loader loader(std::make_shared<IndexPictures>(pictures), definition, options);
  std::vector<int64_t> indices;
  for (int64_t step = options.first_step; step < options.last_step; ++step) {
    const Batch served = loader.next();
    const auto* pixel = served.images.const_data_ptr<float>();
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t position = step * batch + i;
      if (position < begin || position >= begin + kOrderSamples) continue;
      indices.push_back(static_cast<int64_t>(pixel[i]));
    }
  }
  return indices;
}

// Matrices and kernels keep the size of their input; vectors (biases, norms) are far from 0 and 1.
void draw_weights(const Denoiser& model, uint64_t seed) {
  const at::NoGradGuard no_grad;
  uint64_t index = 0;
  for (at::Tensor& parameter : model.parameters()) {
    CounterRng rng(seed, Stream::kPerturb, 0, index++);
    const auto count = static_cast<size_t>(parameter.numel());
    const std::span<double> values(parameter.mutable_data_ptr<double>(), count);
    rng.fill_normal(values);
    const bool is_vector = parameter.dim() < 2;
    const double fan_in = static_cast<double>(parameter.numel()) /
                          static_cast<double>(std::max<int64_t>(1, parameter.size(0)));
    for (double& value : values) {
      value = is_vector ? 0.5 + 0.1 * value : value / std::sqrt(fan_in);
    }
  }
}

Definition trace_definition(const Definition& locked) {
  Definition definition = locked;
  definition.data.name = "synthetic";
  definition.data.train_samples = 0;
  definition.train.accumulation = std::min(kTraceBatch, locked.train.accumulation);
  definition.train.batch = kTraceBatch;
  definition.train.steps = kTraceSteps;
  definition.ema.kind = "none";
  if (locked.model.name == "lucid-unet") {
    definition.model.resolution = std::min(kTraceResolution, locked.model.resolution);
  }
  // A loss cannot depend on these, so equal traces get equal keys.
  definition.id = "";
  definition.scale = "";
  definition.version = 0;
  definition.gates.clear();
  definition.eval = {};
  definition.measure = {};
  definition.quality = {};
  return definition;
}

/// Narrows the images for the same network: a U-Net takes any width that its stages can halve.
Definition evaluation_definition(const Definition& locked) {
  Definition definition = trace_definition(locked);
  if (locked.data.name == "gmm16") definition.data.name = locked.data.name;
  definition.model.resolution = std::min(kEvaluationResolution, locked.model.resolution);
  definition.eval.samples = kEvaluationTimesteps;
  return definition;
}

/// Spells what two definitions of equal traces agree in.
std::string trace_key(const Definition& locked) {
  return canonical_json(trace_definition(locked)) + canonical_json(evaluation_definition(locked));
}

std::vector<double> evaluate_trainer(Trainer& trainer, const Definition& definition) {
  EvaluationOptions options;
  options.precision = trainer.options().precision;
  options.batch = kEvaluationTimesteps;
  const auto dataset = open_dataset(definition, "");
  const reports::Evaluation evaluation =
      evaluate(trainer.model(), trainer.process(), *dataset, definition, options);
  std::vector<double> figures = {evaluation.loss, evaluation.weighted_loss};
  if (evaluation.excess_frac) figures.push_back(*evaluation.excess_frac);
  return figures;
}

std::string files_sha256(std::span<const CifarFile> files) {
  reports::Sha256 sha;
  for (const CifarFile& file : files) {
    sha.update(fmt::format("{}\n{}\n", file.name, file.sha256));
  }
  return sha.hex();
}

std::string pictures_sha256(const Definition& definition, Split split) {
  reports::Sha256 sha;
  const auto dataset = open_dataset(definition, "");
  const int64_t pixels = dataset->channels() * dataset->resolution() * dataset->resolution();
  std::vector<float> picture(static_cast<size_t>(pixels));
  for (int64_t i = 0; i < kDataSamples; ++i) {
    dataset->read(split, i, picture);
    sha.update(std::as_bytes(std::span(picture)));
  }
  return sha.hex();
}

}  // namespace

std::string data_sha256(const Definition& definition) {
  if (definition.data.name == "cifar10") return files_sha256(kCifarFiles);
  return pictures_sha256(definition, Split::kTrain);
}

std::string test_data_sha256(const Definition& definition) {
  if (definition.data.name == "cifar10") return files_sha256(std::span(kCifarFiles).last(1));
  return pictures_sha256(definition, Split::kTest);
}

std::string parameters_sha256(const ModelConfig& config) {
  const auto model = make_denoiser(config, baselines::plain_ops());
  reports::Sha256 sha;
  for (const auto& item : model->named_parameters()) {
    std::string text = item.key();
    for (const int64_t size : item.value().sizes()) text += fmt::format(" {}", size);
    sha.update(text + "\n");
  }
  return sha.hex();
}

std::string schedule_sha256(const DiffusionConfig& diffusion) {
  return tensors_sha256(DiffusionProcess(diffusion, at::kCPU).buffers());
}

std::string order_sha256(const Definition& definition) {
  Definition plain = definition;
  plain.data.flip = false;
  const int64_t pictures = training_pictures(definition);
  reports::Sha256 sha;
  for (int64_t epoch = 0; epoch < kOrderEpochs; ++epoch) {
    const auto indices = served_indices(plain, pictures, epoch * pictures);
    sha.update(std::as_bytes(std::span(indices)));
  }
  return sha.hex();
}

SemanticTrace semantic_trace(const Definition& locked, const baselines::Ops& ops) {
  const Definition definition = trace_definition(locked);
  at::manual_seed(definition.seed);
  auto model = make_denoiser(definition.model, ops);
  const auto mode = memopt::make_mode("none");
  TrainerOptions options;
  options.precision = parse_precision("fp64", at::kCPU);
  Trainer trainer(definition, std::move(model), open_dataset(definition, ""), *mode, options);
  draw_weights(trainer.model(), definition.seed);
  SemanticTrace trace;
  trace.evaluation = evaluate_trainer(trainer, evaluation_definition(locked));
  for (int64_t step = 0; step < kTraceSteps; ++step) trace.losses.push_back(trainer.step().loss);
  return trace;
}

LockEntry LockComputer::compute(const Definition& definition) {
  LockEntry entry;
  entry.definition_sha256 = definition_sha256(definition);
  entry.data_sha256 = data_sha256(definition);
  entry.test_data_sha256 = test_data_sha256(definition);
  entry.parameters_sha256 = parameters_sha256(definition.model);
  entry.schedule_sha256 = schedule_sha256(definition.diffusion);
  entry.order_sha256 = order_sha256(definition);
  entry.judging_sha256 = judging_sha256();
  SemanticTrace& trace = traces_[trace_key(definition)];
  if (trace.losses.empty()) trace = semantic_trace(definition);
  entry.losses = trace.losses;
  entry.evaluation = trace.evaluation;
  return entry;
}

}  // namespace noisemark::suite
