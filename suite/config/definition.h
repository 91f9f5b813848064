#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// A benchmark definition: the part of a run that is locked. Plain values; every field is a TOML
/// key of the same name, so `model.dim` here is `dim` under `[model]` in a definition and `--set
/// model.dim=48` on the command line.
namespace noisemark::suite {

/// Every benchmark has these scales.
inline constexpr std::array<std::string_view, 2> kScales{"cpu", "gpu"};

/// A suite without its benchmarks: their files name it.
struct SuiteName {
  std::string_view name;
  std::string_view summary;
  std::string_view scale;
};
inline constexpr std::array<SuiteName, 3> kSuiteNames{{
    {"smoke", "minutes on two cores, no files: the quality gate and every mode of the small U-Nets",
     "cpu"},
    {"cpu",
     "every benchmark at the scale of a machine without a GPU; lossy modes judged over seeds",
     "cpu"},
    {"gpu", "every benchmark at the scale of a data-centre GPU; lossy modes judged over seeds",
     "gpu"},
}};

/// A word of --precision, which a gate may name too. suite/train/precision.h has its meaning.
struct PrecisionName {
  std::string_view name;
  bool needs_cuda = false;
};
/// The first is the default.
inline constexpr std::array<PrecisionName, 5> kPrecisions{{
    {.name = "fp32"},
    {.name = "tf32", .needs_cuda = true},
    {.name = "bf16"},
    {.name = "fp16", .needs_cuda = true},
    {.name = "fp64"},
}};

/// The makers of the features by which distances are taken, the default first: the image itself, a
/// small network of ours for CIFAR-10, and the network of FID, of weights that the user supplies.
/// suite/quality/features.cpp makes each. The distances of the first two are no FID.
inline constexpr std::array<std::string_view, 3> kExtractors{"pixels", "cifarnet", "inception"};

/// The names in a table such as these.
template <class Table>
[[nodiscard]] std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

/// The denoiser. `name` decides which of the other keys apply (suite/benchmarks/README.md).
struct ModelConfig {
  std::string name;  ///< "lucid-unet" or "ho-unet"
  int64_t channels = 3;
  int64_t resolution = 32;
  int64_t dim = 64;
  std::vector<int64_t> dim_mults{1, 2, 4, 8};
  double dropout = 0.0;
  // lucid-unet
  int64_t attn_heads = 4;
  int64_t attn_dim_head = 32;
  // ho-unet
  int64_t res_blocks = 2;
  std::vector<int64_t> attention_resolutions{16};
  int64_t groups = 32;
  std::string activation = "silu";  ///< "silu" or "relu"
  std::string downsample =
      "conv";  ///< "conv" (stride 2), or "max_pool" (3x3 convolution, activation, 2x2 pooling)
};

struct DataConfig {
  std::string name;           ///< "gmm16", "cifar10", "folder" or "synthetic"
  bool flip = true;           ///< random horizontal flip of training images
  int64_t train_samples = 0;  ///< images of "gmm16" or "synthetic"; 0: all that the source has
  int64_t seed = 0;           ///< seed of generated data
};

struct DiffusionConfig {
  int64_t timesteps = 1000;
  std::string schedule = "linear";  ///< "linear", "cosine" or "sigmoid"
  std::string objective = "eps";    ///< "eps", "x0" or "v"
  bool min_snr = false;
  double min_snr_gamma = 5.0;
};

struct OptimizerConfig {
  std::string name = "adam";
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double clip_norm = 0.0;    ///< 0: not clipped
  int64_t warmup_steps = 0;  ///< linear, from 0
};

struct EmaConfig {
  std::string kind = "none";  ///< "none", "constant" (every step), "power" (ema-pytorch: warm-up
                              ///< power, update_every)
  double decay = 0.9999;
  int64_t update_every = 1;         ///< "power"
  int64_t update_after_step = 100;  ///< "power"
  double inv_gamma = 1.0;           ///< "power"
  double power = 2.0 / 3.0;         ///< "power"
};

struct TrainConfig {
  int64_t batch = 16;  ///< images per optimizer step, all micro-batches together
  int64_t accumulation = 1;
  int64_t steps = 100;
};

/// The learning rate of a batch that is not the one that it was chosen for (Goyal et al. 2017).
struct ScaleConfig {
  std::string rule = "none";  ///< "linear" or "sqrt" in train.batch / base_batch
  int64_t base_batch = 128;   ///< batch for which optimizer.lr was chosen
  int64_t warmup_steps = 0;   ///< linear, from optimizer.lr to the scaled rate
};

struct EvalConfig {
  int64_t samples = 64;  ///< samples of the test split, i at timestep floor((i mod 8 + 0.5) T / 8)
  int64_t every = 0;     ///< steps between evaluations; 0: at the start and the end only
  std::string weights = "model";  ///< "model" or "ema"
  double target_loss = 0.0;       ///< loss whose time is told; 0: none
};

/// Images drawn with the trained weights: those that `eval.weights` names.
struct SampleConfig {
  std::string sampler = "none";         ///< "none", "ddim" or "ddpm"
  int64_t count = 64;                   ///< images
  int64_t ddim_steps = 50;              ///< evaluations of the network for an image, at most T
  double ddim_eta = 0.0;                ///< 0 to 1: share of fresh noise in every step
  std::string grid = "lucid";           ///< timesteps of ddim: "lucid" or diffusers' "trailing"
  std::string ddpm_variance = "small";  ///< "small" (the posterior's) or "large" (beta)
};

/// Passes besides training.
struct MeasureConfig {
  int64_t memory_steps = 3;   ///< the last one is measured; 0: no pass
  int64_t profile_steps = 3;  ///< steps under the profiler, and as many without it before; 0: no
                              ///< pass
};

/// The rules for judging quality: margins of `noisemark quality`, how far a lossy mode may move the
/// gradient of a step, and how distances of samples must be made. Margins of ratios are fractions;
/// one of 0 must be given with --gate.
struct QualityConfig {
  double val_loss_margin = 0.01;
  double val_loss_weighted_margin = 0.01;
  double time_to_quality_s_margin = 0.03;
  double samples_to_quality_margin = 0.10;
  double fid_margin = 0.05;
  double kid_margin = 0.0;  ///< a difference
  double cifarnet_distance_margin = 0.0;
  double gradient_error_max = 0.0;  ///< bound of |g - g0| / |g0| over all gradients; 0: its mode's
  std::string extractor = "any";    ///< one of kExtractors, for distances
  std::string resize = "tf1-bilinear";  ///< or "bilinear", of the extractor inception
  std::string reference = "any";        ///< reference of distances: a name without folders, or the
                                        ///< SHA-256 of moments
};

/// One absolute gate: `[gate.NAME]` with `metric`, `max` or `min`, and the precisions it judges.
struct GateConfig {
  std::string name;
  std::string metric;
  std::string relation;  ///< "at most" or "at least"
  double bound = 0;
  std::vector<std::string> precisions;  ///< precisions the bound was calibrated for; empty: all
};

struct Definition {
  std::string id;
  std::string title;
  std::string why;    ///< purpose of the benchmark, one line for `noisemark list`
  std::string scale;  ///< "cpu" or "gpu": which of the two locked scales this is
  int64_t version = 1;
  uint64_t seed = 0;
  int64_t order = 1000;             ///< its place in lists, by rising number and then by id
  std::vector<std::string> suites;  ///< names of suites() that run it
  int64_t suite_seeds = 1;          ///< seeds per mode in a suite; above 1: to judge quality
  std::vector<std::string> modes;   ///< memory modes that a suite runs
  ModelConfig model;
  DataConfig data;
  DiffusionConfig diffusion;
  OptimizerConfig optimizer;
  EmaConfig ema;
  TrainConfig train;
  ScaleConfig scaling;
  EvalConfig eval;
  MeasureConfig measure;
  SampleConfig sample;
  QualityConfig quality;
  std::vector<GateConfig> gates;

  std::string source;                  ///< the file it was read from, as error messages name it
  std::vector<std::string> overrides;  ///< "key=value" from --set
  bool custom = false;    ///< nothing here is locked: --set, a user's own file or `unlocked`
  bool unlocked = false;  ///< its name is shipped, but LOCK holds another hash for it, or none
};

}  // namespace noisemark::suite
