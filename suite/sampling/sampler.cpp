#include "suite/sampling/sampler.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "suite/io/numpy.h"
#include "suite/models/denoiser.h"
#include "suite/random/counter_rng.h"
#include "suite/sampling/steps.h"

namespace noisemark::suite {
namespace {

template <typename T>
void fill(uint64_t seed, const NoiseDraw& draw, const at::Tensor& out) {
  const int64_t count = out.size(0);
  const int64_t values = out.numel() / count;
  T* const data = out.mutable_data_ptr<T>();
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CounterRng(seed, Stream::kSampler, static_cast<uint64_t>(draw.number),
                 static_cast<uint64_t>(draw.first + i))
          .fill_normal(std::span(data + i * values, static_cast<size_t>(values)));
    }
  });
}

}  // namespace

NoiseSource counter_noise(uint64_t seed) {
  return [seed](const NoiseDraw& draw, const at::Tensor& out) {
    TORCH_CHECK(out.is_contiguous() && out.device().is_cpu(),
                "noise is drawn row-major on the CPU");
    if (out.numel() == 0) return;
    if (out.scalar_type() == at::kDouble) {
      fill<double>(seed, draw, out);
    } else {
      fill<float>(seed, draw, out);
    }
  };
}

NoiseSource with_initial_noise(const at::Tensor& initial, NoiseSource rest) {
  return [initial, rest = std::move(rest)](const NoiseDraw& draw, const at::Tensor& out) {
    if (draw.number > 0) return rest(draw, out);
    TORCH_CHECK(draw.first + out.size(0) <= initial.size(0), "no initial noise of sample ",
                draw.first + out.size(0) - 1, ", but of ", initial.size(0));
    out.copy_(initial.narrow(0, draw.first, out.size(0)));
  };
}

at::Tensor read_initial_noise(const std::string& path, int64_t channels, int64_t resolution) {
  const at::Tensor noise = read_npy(path);
  const bool real = noise.scalar_type() == at::kFloat || noise.scalar_type() == at::kDouble;
  const bool fits = real && noise.dim() == 4 && noise.size(0) >= 1 && noise.size(1) == channels &&
                    noise.size(2) == resolution && noise.size(3) == resolution;
  if (!fits) {
    throw bad_input(
        path, "",
        fmt::format("{} [{}]", real ? "numbers" : "another type than float",
                    fmt::join(noise.sizes(), ", ")),
        fmt::format("float32 or float64 [N, {}, {}, {}]", channels, resolution, resolution));
  }
  if (!at::isfinite(noise).all().item<bool>()) {
    throw bad_input(path, "", "a NaN or an infinity", "finite numbers");
  }
  return noise;
}

namespace {

/// The buffers of a batch, made once.
class Buffers {
 public:
  Buffers(int64_t batch, const SamplerTask& task, const SamplerOptions& options)
      : x(at::empty({batch, task.channels, task.resolution, task.resolution}, type_of(options),
                    format_of(options))),
        noise(at::empty_like(x)),
        t(at::empty({batch}, at::TensorOptions(at::kLong).device(options.device))),
        drawn_(at::empty(
            x.sizes(), type_of(options).device(at::kCPU).pinned_memory(options.device.is_cuda()))) {
  }

  /// Noise of the source into `to`, x or noise.
  void draw(const NoiseSource& source, const NoiseDraw& what, const at::Tensor& to) const {
    source(what, drawn_);
    to.copy_(drawn_);
  }

  at::Tensor x;
  at::Tensor noise;
  at::Tensor t;

 private:
  static at::TensorOptions type_of(const SamplerOptions& options) {
    return at::TensorOptions(options.precision.weights).device(options.device);
  }
  static at::MemoryFormat format_of(const SamplerOptions& options) {
    return options.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  }

  at::Tensor drawn_;  // row-major on the CPU, as sources fill it
};

/// One sampling in progress.
class Sampling {
 public:
  Sampling(Denoiser& model, const DiffusionProcess& process, const SamplerTask& task,
           const SamplerOptions& options)
      : model_(model),
        task_(task),
        options_(options),
        steps_(sampler_steps(task.sample, process)) {}

  void run(const at::Tensor& samples) const {
    const AutocastGuard autocast(options_.precision, options_.device);
    const int64_t count = samples.size(0);
    Buffers buffers(std::min(options_.batch, count), task_, options_);
    for (int64_t first = 0; first < count; first += options_.batch) {
      const int64_t size = std::min(options_.batch, count - first);
      if (size < buffers.x.size(0)) buffers = Buffers(size, task_, options_);
      draw_batch(buffers, first);
      require_finite(buffers.x, first);
      samples.narrow(0, first, size).copy_(buffers.x);
    }
  }

 private:
  void draw_batch(const Buffers& buffers, int64_t first) const {
    buffers.draw(task_.noise, {0, first}, buffers.x);
    for (size_t k = 0; k < steps_.size(); ++k) {
      const SamplerStep& step = steps_[k];
      const auto number = static_cast<int64_t>(k);
      if (options_.before_step) {
        options_.before_step(
            {first, task_.sample.count, number, static_cast<int64_t>(steps_.size())});
      }
      buffers.t.fill_(step.t);
      const at::Tensor out = predict(buffers);
      if (step.x_from_noise != 0) {
        buffers.draw(task_.noise, {number + 1, first}, buffers.noise);
      }
      update_sample(step, out, buffers.noise, buffers.x);
    }
  }

  [[nodiscard]] at::Tensor predict(const Buffers& buffers) const {
    return model_.forward(buffers.x, buffers.t).to(buffers.x.scalar_type());
  }

  static void require_finite(const at::Tensor& x, int64_t first) {
    if (at::isfinite(x).all().item<bool>()) return;
    throw Error(ExitCode::kFailed, fmt::format("samples {} to {}: not finite: the network's output "
                                               "was a NaN or an infinity",
                                               first, first + x.size(0) - 1));
  }

  Denoiser& model_;
  const SamplerTask& task_;
  const SamplerOptions& options_;
  std::vector<SamplerStep> steps_;
};

}  // namespace

at::Tensor draw_samples(Denoiser& model, const DiffusionProcess& process, const SamplerTask& task,
                        const SamplerOptions& options) {
  TORCH_CHECK(task.sample.count >= 1 && options.batch >= 1 && task.noise,
              "samples, their batch and a source of noise must be given");
  // The tensor is made before inference mode, so that whoever gets it may do with it what he likes.
  const at::Tensor samples =
      at::empty({task.sample.count, task.channels, task.resolution, task.resolution},
                options.precision.weights);
  const c10::InferenceMode no_gradients;
  const EvaluationModeGuard evaluation_mode(model);
  Sampling(model, process, task, options).run(samples);
  return samples;
}

}  // namespace noisemark::suite
