#include "suite/run/sampling_pass.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "reports/sha256.h"
#include "suite/config/canonical.h"
#include "suite/io/tensor_bytes.h"
#include "suite/sampling/folder.h"
#include "suite/sampling/sampler.h"
#include "suite/train/named_parameters.h"

namespace noisemark::suite {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Shows how far the sampler is, not more often than anybody can read, and ends it when asked to.
class Watcher {
 public:
  explicit Watcher(const PassWatch& watch) : watch_(watch) {}

  void operator()(const SamplerPosition& at) {
    if (watch_.interrupt.requested()) {
      throw Interrupted(fmt::format("interrupted in the sampling after {} of {} samples",
                                    at.samples_done, at.samples));
    }
    const Clock::time_point now = Clock::now();
    if (now - shown_ < kShowEvery) return;
    shown_ = now;
    const double rate = static_cast<double>(at.samples_done) / seconds_since(start_);
    watch_.line.say(fmt::format("sampling, {} of {} images, step {}/{}{}", at.samples_done,
                                at.samples, at.step + 1, at.steps,
                                at.samples_done > 0 ? fmt::format(", {:.1f} images/s", rate) : ""));
  }

 private:
  static constexpr auto kShowEvery = std::chrono::milliseconds(200);
  const PassWatch& watch_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_{};
};

/// Where x_T comes from; what it was goes into `hash` in the order of the samples, as float32.
NoiseSource noise_of(const SamplingPassOptions& options,
                     const std::shared_ptr<reports::Sha256>& hash) {
  NoiseSource source = counter_noise(options.seed);
  if (options.initial_noise.defined()) {
    source = with_initial_noise(options.initial_noise, std::move(source));
  }
  return [source = std::move(source), hash](const NoiseDraw& draw, const at::Tensor& out) {
    source(draw, out);
    if (draw.number == 0) hash->update(bytes_of(row_major_on_cpu(out.to(at::kFloat))));
  };
}

void tell_of_other_definition(const SamplingPassOptions& options, const SamplingWeights& weights) {
  const std::string& trained = weights.definition_sha256;
  if (trained.empty() || trained == definition_sha256(options.definition)) return;
  fmt::print(stderr,
             "noisemark: {}: trained under another definition than {}, whose network fits\n",
             weights.file, options.definition.id);
}

/// The network with the weights, in its place; where they come from goes into `record`.
std::shared_ptr<Denoiser> load_model(const SamplingPassOptions& options,
                                     const baselines::Execution& execution,
                                     SamplingRecord& record) {
  const Definition& definition = options.definition;
  const Variant& variant = options.variant;
  record.weights = read_sampling_weights(options.weights, options.kind, definition.eval.weights);
  std::shared_ptr<Denoiser> model = make_denoiser(definition.model, execution.ops());
  copy_by_name(record.weights.tensors, named_parameters(*model), record.weights.file);
  record.weights.tensors.clear();
  record.weights_sha256 = tensors_sha256(named_parameters(*model));
  place_model(*model, variant.device, variant.precision.weights, execution.channels_last);
  return model;
}

void describe(const SamplingPassOptions& options, SamplingRecord& record) {
  record.definition = options.definition;
  record.sample = options.sample;
  record.seed = options.seed;
  record.noise_file = options.noise_file;
  record.baseline = options.variant.baseline;
  record.precision = options.variant.precision.name;
  record.device = options.variant.device.str();
  record.threads = options.variant.threads;
  record.batch = options.batch;
}

}  // namespace

void sampling_pass(const SamplingPassOptions& options, const PassWatch& watch) {
  const Variant& variant = options.variant;
  const baselines::Execution execution = baselines::parse_baseline(variant.baseline);
  SamplingRecord record;
  describe(options, record);
  const std::shared_ptr<Denoiser> model = load_model(options, execution, record);
  watch.line.clear();
  tell_of_other_definition(options, record.weights);
  watch.line.say("sampling");

  const Definition& definition = options.definition;
  const DiffusionProcess process(definition.diffusion, variant.device, variant.precision.weights);
  const auto noise_hash = std::make_shared<reports::Sha256>();
  const SamplerTask task{options.sample, definition.model.channels, definition.model.resolution,
                         noise_of(options, noise_hash)};
  const SamplerOptions how{variant.device, variant.precision, execution.channels_last,
                           options.batch, Watcher(watch)};
  const Clock::time_point start = Clock::now();
  const at::Tensor samples = draw_samples(*model, process, task, how);
  record.sampling_s = seconds_since(start);
  record.noise_sha256 = noise_hash->hex();
  watch.line.say("writing samples");
  write_sampling_folder(options.out, samples, record);
}

}  // namespace noisemark::suite
