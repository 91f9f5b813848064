// Runs one piece of Noisemark on tensors that a Python script wrote, so that the script can compare
// it with the peer. One argument: a request in JSON; tensors come and go as safetensors.
//   {"command": "gradients", "in": "request.safetensors", "out": "reply.safetensors",
//    "dtype": "float64", "model": {"name": "lucid-unet", "dim": 16, ...}, "diffusion": {...}, ...}

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/utils.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "memopt/modes/mode.h"
#include "reports/base/error.h"
#include "suite/data/dataset.h"
#include "suite/data/image_file.h"
#include "suite/data/loader.h"
#include "suite/data/picture_files.h"
#include "suite/diffusion/process.h"
#include "suite/io/safetensors.h"
#include "suite/models/denoiser.h"
#include "suite/quality/validation.h"
#include "suite/sampling/sampler.h"
#include "suite/sampling/steps.h"
#include "suite/train/ema.h"
#include "suite/train/precision.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ModelConfig, name, channels, resolution, dim,
                                                dim_mults, dropout, attn_heads, attn_dim_head,
                                                res_blocks, attention_resolutions, groups,
                                                activation, downsample)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DiffusionConfig, timesteps, schedule, objective,
                                                min_snr, min_snr_gamma)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(OptimizerConfig, lr, beta1, beta2, eps, clip_norm,
                                                warmup_steps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(EmaConfig, kind, decay, update_every,
                                                update_after_step, inv_gamma, power)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SampleConfig, sampler, count, ddim_steps, ddim_eta,
                                                grid, ddpm_variance)

namespace {

using Json = nlohmann::json;

// The deliberate mistake of the negative control.
class SwappedScaleAndShift : public baselines::Ops {
 public:
  at::Tensor group_norm_act(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                            const at::Tensor& bias, double eps,
                            baselines::Activation act) const override {
    return plain_.group_norm_act(x, groups, bias, weight, eps, act);
  }
  at::Tensor group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                        const at::Tensor& bias, double eps) const override {
    return plain_.group_norm(x, groups, bias, weight, eps);
  }
  at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& g) const override {
    return plain_.rms_norm(x, g);
  }
  at::Tensor rms_norm_film_silu(const at::Tensor& x, const at::Tensor& g, const at::Tensor& scale,
                                const at::Tensor& shift) const override {
    return plain_.rms_norm_film_silu(x, g, shift, scale);
  }

 private:
  const baselines::Ops& plain_ = baselines::plain_ops();
};

const baselines::Ops& ops_named(const std::string& name) {
  static const SwappedScaleAndShift swapped;
  if (name == "plain") return baselines::plain_ops();
  if (name == "fused") return baselines::fused_ops();
  if (name == "swapped") return swapped;
  throw bad_input("ops", "", name, "one of: plain, fused, swapped");
}

// One request: what the commands below read from it.
class Request {
 public:
  explicit Request(Json json) : json_(std::move(json)) {
    if (json_.contains("in")) tensors_ = read_safetensors(json_.at("in")).tensors;
  }

  [[nodiscard]] const at::Tensor& tensor(const std::string& name) const {
    for (const auto& [candidate, values] : tensors_) {
      if (candidate == name) return values;
    }
    throw bad_input("request", name, "missing", "a tensor");
  }

  // Floating-point tensors in the request's type.
  [[nodiscard]] at::Tensor real(const std::string& name) const { return tensor(name).to(dtype()); }

  // Tensors whose names begin with `prefix`, without it.
  [[nodiscard]] NamedTensors tensors(const std::string& prefix) const {
    NamedTensors found;
    for (const auto& [name, values] : tensors_) {
      if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), values);
    }
    return found;
  }

  template <typename T>
  [[nodiscard]] T get(const std::string& key, const T& fallback) const {
    return json_.value(key, fallback);
  }

  [[nodiscard]] at::ScalarType dtype() const {
    return get<std::string>("dtype", "float32") == "float64" ? at::kDouble : at::kFloat;
  }

  [[nodiscard]] DiffusionProcess process() const {
    return {get("diffusion", DiffusionConfig{}), at::kCPU, dtype()};
  }

  // Makes the model with the request's weights, if it has any; training mode.
  [[nodiscard]] std::shared_ptr<Denoiser> model() const {
    torch::manual_seed(get<uint64_t>("seed", 0));
    auto model =
        make_denoiser(get("model", ModelConfig{}), ops_named(get<std::string>("ops", "plain")));
    model->to(dtype());
    const NamedTensors weights = tensors("weight.");
    if (!weights.empty()) copy_by_name(weights, named_parameters(*model), json_.at("in"));
    return model;
  }

 private:
  Json json_;
  NamedTensors tensors_;
};

void append(NamedTensors& reply, const std::string& prefix, const NamedTensors& tensors) {
  for (const auto& [name, values] : tensors) reply.emplace_back(prefix + name, values.clone());
}

NamedTensors init(const Request& request) {
  return named_parameters(*request.model());
}

NamedTensors schedule(const Request& request) {
  return request.process().buffers();
}

// Output, and the gradients of the sum of output * cotangent. "dropout_seed" seeds the generator
// that dropout draws from.
NamedTensors gradients(const Request& request) {
  const auto model = request.model();
  torch::manual_seed(request.get<uint64_t>("dropout_seed", 0));
  const at::Tensor output = model->forward(request.real("x"), request.tensor("t"));
  (output * request.real("cotangent")).sum().backward();
  NamedTensors reply{{"output", output}};
  for (const auto& [name, parameter] : named_parameters(*model)) {
    reply.emplace_back("grad." + name, parameter.grad());
  }
  return reply;
}

NamedTensors output(const Request& request) {
  const at::NoGradGuard no_grad;
  return {{"output", request.model()->forward(request.real("x"), request.tensor("t"))}};
}

NamedTensors loss(const Request& request) {
  const at::NoGradGuard no_grad;
  const DiffusionProcess process = request.process();
  const at::Tensor x0 = request.real("x0");
  const at::Tensor noise = request.real("noise");
  const at::Tensor& t = request.tensor("t");
  const at::Tensor x_t = process.q_sample(x0, t, noise);
  const at::Tensor target = process.target(x0, t, noise);
  const at::Tensor prediction = request.model()->forward(x_t, t);
  return {{"x_t", x_t}, {"target", target}, {"loss", process.training_loss(prediction, target, t)}};
}

Definition training_definition(const Request& request) {
  Definition definition;
  definition.model = request.get("model", ModelConfig{});
  definition.diffusion = request.get("diffusion", DiffusionConfig{});
  definition.optimizer = request.get("optimizer", OptimizerConfig{});
  definition.ema = request.get("ema", EmaConfig{});
  definition.data.name = "gmm16";
  definition.data.train_samples = 64;
  definition.train.batch = request.get<int64_t>("batch", 2);
  definition.train.steps = request.get<int64_t>("steps", 10);
  return definition;
}

// All that is random in the steps from `first` on: x0[s], t[s], noise[s].
NamedTensors batches_of(const Definition& definition, std::shared_ptr<const Dataset> dataset,
                        int64_t first = 0) {
  LoaderOptions options;
  options.first_step = first;
  options.last_step = definition.train.steps;
  Loader loader(std::move(dataset), definition, options);
  std::vector<at::Tensor> x0, t, noise;
  for (int64_t s = first; s < definition.train.steps; ++s) {
    const Batch batch = loader.next();
    x0.push_back(batch.images);
    t.push_back(batch.timesteps);
    noise.push_back(batch.noise);
  }
  return {{"x0", at::stack(x0)}, {"t", at::stack(t)}, {"noise", at::stack(noise)}};
}

Definition data_definition(const Request& request) {
  Definition definition = training_definition(request);
  definition.seed = request.get<uint64_t>("seed", 0);
  definition.data.name = request.get<std::string>("data", "gmm16");
  definition.data.seed = request.get<int64_t>("data_seed", 0);
  definition.data.train_samples = request.get<int64_t>("train_samples", 0);
  definition.data.flip = request.get("flip", false);
  return definition;
}

NamedTensors batches(const Request& request) {
  const Definition definition = data_definition(request);
  const auto dataset = open_dataset(definition, request.get<std::string>("folder", ""));
  return batches_of(definition, dataset, request.get<int64_t>("first", 0));
}

// The product's own steps on its own batches, which the reply holds too.
NamedTensors train(const Request& request) {
  const Definition definition = training_definition(request);
  const auto dataset = open_dataset(definition, "");
  const auto mode = memopt::make_mode("none");
  TrainerOptions options;
  options.precision =
      parse_precision(request.dtype() == at::kDouble ? "fp64" : "fp32", options.device);
  Trainer trainer(definition, request.model(), dataset, *mode, options);
  std::vector<double> losses, norms;
  for (int64_t s = 0; s < definition.train.steps; ++s) {
    const StepRecord record = trainer.step();
    losses.push_back(record.loss);
    norms.push_back(record.grad_norm.value());
  }
  NamedTensors reply = batches_of(definition, dataset);
  reply.emplace_back("losses", at::tensor(losses, request.dtype()));
  reply.emplace_back("norms", at::tensor(norms, request.dtype()));
  append(reply, "weight.", trainer.parameters());
  append(reply, "ema.", trainer.ema().shadows());
  return reply;
}

// The average's trace when the weight is weights[s] after step s.
NamedTensors average(const Request& request) {
  const at::NoGradGuard no_grad;
  const at::Tensor weights = request.real("weights");
  const at::Tensor weight = weights[0].clone();
  Ema ema({{"weight", weight}}, request.get("ema", EmaConfig{}));
  std::vector<at::Tensor> trace;
  for (int64_t s = 0; s < weights.size(0); ++s) {
    weight.copy_(weights[s]);
    ema.update();
    trace.push_back(ema.shadows().front().second.clone());
  }
  return {{"trace", at::stack(trace)}};
}

// Loss scaling over scaled gradients "gradients" [S, N]: what is left of each, whether it was
// skipped, the scale and the count of good steps after it. After step "resume_at" a new scaler goes
// on with the state of the old one.
NamedTensors scaler(const Request& request) {
  const LossScaling scaling{request.get("initial", 65536.0), request.get("growth", 2.0),
                            request.get("backoff", 0.5), request.get<int64_t>("interval", 2000)};
  const at::Tensor& gradients = request.tensor("gradients");
  LossScaler scaler(at::kCPU, scaling);
  std::vector<at::Tensor> unscaled, skipped, scales, growths;
  for (int64_t s = 0; s < gradients.size(0); ++s) {
    if (s == request.get<int64_t>("resume_at", -1)) {
      LossScaler next(at::kCPU, scaling);
      copy_by_name(scaler.state(), next.state(), "scaler");
      scaler = next;
    }
    const at::Tensor gradient = gradients[s].clone();
    const at::Tensor found = scaler.unscale({gradient});
    scaler.update(found);
    unscaled.push_back(gradient);
    skipped.push_back(found);
    scales.push_back(scaler.state()[0].second.clone());
    growths.push_back(scaler.state()[1].second.clone());
  }
  return {{"unscaled", at::stack(unscaled)},
          {"skipped", at::stack(skipped)},
          {"scale", at::stack(scales)},
          {"growth", at::stack(growths)}};
}

// DDIM's timesteps and those to which they lead, a row for each number of steps; the rest is -2.
NamedTensors timesteps(const Request& request) {
  const auto count = request.get<int64_t>("timesteps", 1000);
  const at::Tensor times = at::full({count, count}, -2, at::kLong);
  const at::Tensor next = times.clone();
  auto time_of = times.accessor<int64_t, 2>();
  auto next_of = next.accessor<int64_t, 2>();
  for (int64_t steps = 1; steps <= count; ++steps) {
    const auto all = ddim_timesteps(request.get<std::string>("grid", "lucid"), count, steps);
    for (size_t i = 0; i < all.size(); ++i) {
      time_of[steps - 1][static_cast<int64_t>(i)] = all[i].t;
      next_of[steps - 1][static_cast<int64_t>(i)] = all[i].next;
    }
  }
  return {{"t", times}, {"next", next}};
}

// Noise of the request: x_T is "initial" [N, C, H, W], draw k is "noise" [S, N, C, H, W] at k - 1.
NoiseSource injected_noise(const at::Tensor& initial, const at::Tensor& noise) {
  return [=](const NoiseDraw& draw, const at::Tensor& out) {
    const at::Tensor& all = draw.number == 0 ? initial : noise[draw.number - 1];
    out.copy_(all.narrow(0, draw.first, out.size(0)));
  };
}

NamedTensors sample(const Request& request) {
  const at::Tensor initial = request.real("initial");
  SampleConfig config = request.get("sample", SampleConfig{});
  config.count = initial.size(0);
  SamplerOptions options;
  options.precision =
      parse_precision(request.dtype() == at::kDouble ? "fp64" : "fp32", options.device);
  options.channels_last = request.get("channels_last", false);
  options.batch = request.get<int64_t>("batch", config.count);
  const auto model = request.model();
  place_model(*model, options.device, request.dtype(), options.channels_last);
  const SamplerTask task{config, initial.size(1), initial.size(2),
                         injected_noise(initial, request.real("noise"))};
  return {{"samples", draw_samples(*model, request.process(), task, options)}};
}

// A network that answers with zeros, and keeps what it was asked.
class Listener final : public Denoiser {
 public:
  at::Tensor forward(const at::Tensor& x, const at::Tensor& t) override {
    x_.push_back(x.clone());
    t_.push_back(t.clone());
    return at::zeros_like(x);
  }
  [[nodiscard]] at::Tensor x() const { return at::cat(x_); }
  [[nodiscard]] at::Tensor t() const { return at::cat(t_); }
  [[nodiscard]] at::Tensor first() const { return x_.front(); }

 private:
  std::vector<at::Tensor> x_;
  std::vector<at::Tensor> t_;
};

// The batch that an evaluation of "samples" test images shows the network.
NamedTensors evaluation(const Request& request) {
  Definition definition = data_definition(request);
  definition.eval.samples = request.get<int64_t>("samples", 8);
  EvaluationOptions options;
  options.precision = parse_precision("fp32", options.device);
  const auto dataset = open_dataset(definition, request.get<std::string>("folder", ""));
  Listener listener;
  (void)evaluate(listener, request.process(), *dataset, definition, options);
  return {{"x", listener.x()}, {"t", listener.t()}};
}

// The noise that the network sees first when "samples" images are drawn by the product's own
// generator.
NamedTensors initial_noise(const Request& request) {
  const ModelConfig model = request.get("model", ModelConfig{});
  SampleConfig config = request.get("sample", SampleConfig{});
  config.count = request.get<int64_t>("samples", 2);
  SamplerOptions options;
  options.precision = parse_precision("fp32", options.device);
  const SamplerTask task{config, model.channels, model.resolution,
                         counter_noise(request.get<uint64_t>("seed", 0))};
  Listener listener;
  (void)draw_samples(listener, request.process(), task, options);
  return {{"x_T", listener.first()}};
}

// The pixels [H, W, 3] of those of the request's files that are not refused, by their paths.
NamedTensors decode(const Request& request) {
  NamedTensors reply;
  for (const auto& path : request.get("files", std::vector<std::string>{})) {
    try {
      const Picture picture = decode_image(read_bytes(path)).picture;
      reply.emplace_back(path, at::tensor(picture.pixels, at::kByte)
                                   .reshape({picture.height, picture.width, picture.channels}));
    } catch (const ImageError&) {  // left out of the reply
    }
  }
  return reply;
}

struct Command {
  std::string_view name;
  NamedTensors (*run)(const Request&);
};

constexpr std::array kCommands{
    Command{"init", init},
    Command{"schedule", schedule},
    Command{"gradients", gradients},
    Command{"loss", loss},
    Command{"output", output},
    Command{"train", train},
    Command{"average", average},
    Command{"sample", sample},
    Command{"scaler", scaler},
    Command{"decode", decode},
    Command{"batches", batches},
    Command{"timesteps", timesteps},
    Command{"evaluation", evaluation},
    Command{"initial_noise", initial_noise},
};

void run(const std::string& text) {
  const Json json = Json::parse(text);
  for (const Command& command : kCommands) {
    if (command.name != json.at("command").get<std::string>()) continue;
    write_safetensors(json.at("out"), command.run(Request(json)));
    return;
  }
  throw bad_input("command", "", json.at("command").dump(), "see tests/parity/README.md");
}

}  // namespace
}  // namespace noisemark::suite

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw noisemark::bad_input("arguments", "", "", "one request in JSON");
    noisemark::suite::run(argv[1]);
    return 0;
  } catch (const noisemark::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(noisemark::ExitCode::kInternal);
  }
}
