#include "suite/config/keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "reports/base/error.h"
#include "reports/seeds/judge.h"

namespace noisemark::suite {
namespace {

template <auto kField>
Member at(Definition& d) {
  return &(d.*kField);
}

template <auto kSection, auto kField>
Member in(Definition& d) {
  return &((d.*kSection).*kField);
}

constexpr Accepted kAny{};
constexpr Accepted kSwitch{};

constexpr Accepted integer(double min, double max) {
  return {.min = min, .max = max};
}
constexpr Accepted number(double min, double max) {
  return {.min = min, .max = max};
}
constexpr Accepted above(double min) {
  return {.min = min, .above_min = true};
}
constexpr Accepted at_least(double min) {
  return {.min = min};
}
constexpr Accepted fraction() {
  return {.min = 0, .max = 1, .below_max = true};
}
constexpr Accepted one_of(std::string_view a, std::string_view b = {}, std::string_view c = {},
                          std::string_view d = {}) {
  return {.choices = {a, b, c, d}};
}
template <class Table>
constexpr Accepted any_name_in(const Table& table) {
  Accepted accepted;
  for (size_t i = 0; i < table.size(); ++i) accepted.choices[i] = table[i].name;
  return accepted;
}
constexpr Accepted any_or(const std::array<std::string_view, 3>& names) {
  return one_of("any", names[0], names[1], names[2]);
}

constexpr Condition kAlways{};
constexpr Condition kLucid{"model.name", {"lucid-unet"}};
constexpr Condition kHo{"model.name", {"ho-unet"}};
constexpr Condition kGenerated{"data.name", {"gmm16", "synthetic"}};
constexpr Condition kMinSnr{"diffusion.min_snr", {"true"}};
constexpr Condition kAnyEma{"ema.kind", {"constant", "power"}};
constexpr Condition kPowerEma{"ema.kind", {"power"}};
constexpr Condition kScaled{"scale.rule", {"linear", "sqrt"}};
constexpr Condition kSamples{"sample.sampler", {"ddim", "ddpm"}};
constexpr Condition kDdim{"sample.sampler", {"ddim"}};
constexpr Condition kDdpm{"sample.sampler", {"ddpm"}};
constexpr Condition kInception{"quality.extractor", {"inception"}};
constexpr bool kLater = true;

constexpr double kMaxCount = 1e9;
constexpr double kMaxSeed = 9007199254740992.0;  // 2^53: exact in every JSON reader

using D = Definition;
using S = Standing;

// The order is the canonical order: it is part of every definition's SHA-256.
constexpr Key kKeys[] = {
    {"benchmark", "id", at<&D::id>, kAny, kAlways, S::kFixed, true, "unique name"},
    {"benchmark", "title", at<&D::title>, kAny, kAlways, S::kDisplay, true, "heading of reports"},
    {"benchmark", "why", at<&D::why>, kAny, kAlways, S::kDisplay, false, "what it is for"},
    {"benchmark", "version", at<&D::version>, integer(1, 1000), kAlways, S::kFixed, true,
     "goes up with every change of a locked key"},
    {"benchmark", "seed", at<&D::seed>, integer(0, kMaxSeed), kAlways, S::kFixed, false,
     "seed of every random stream; --seed runs another one"},
    {"benchmark", "order", at<&D::order>, integer(1, kMaxCount), kAlways, S::kDisplay, false,
     "place in lists and suites, by rising number and then by id"},
    {"benchmark", "suites", at<&D::suites>, any_name_in(kSuiteNames), kAlways, S::kDisplay, false,
     "suites that run it"},
    {"benchmark", "suite_seeds", at<&D::suite_seeds>, integer(1, 1000), kAlways, S::kDisplay, false,
     "trainings of each mode in a suite; above 1 the suite judges its quality"},
    {"benchmark",
     "modes",
     at<&D::modes>,
     {.min_items = 1},
     kAlways,
     S::kDisplay,
     true,
     "memory modes that a suite runs it under; \"every\", \"lossless\" and \"lossy\" stand for all "
     "words of the grammar, those that round nothing and those that round"},

    {"model", "name", in<&D::model, &ModelConfig::name>, one_of("lucid-unet", "ho-unet"), kAlways,
     S::kLocked, true, "the network"},
    {"model", "channels", in<&D::model, &ModelConfig::channels>, integer(1, 64), kAlways,
     S::kLocked, false, "channels of an image"},
    {"model", "resolution", in<&D::model, &ModelConfig::resolution>, integer(4, 1024), kAlways,
     S::kLocked, false, "height and width of an image, pixels"},
    {"model", "dim", in<&D::model, &ModelConfig::dim>, integer(4, 4096), kAlways, S::kLocked, false,
     "channels of the first stage"},
    {"model",
     "dim_mults",
     in<&D::model, &ModelConfig::dim_mults>,
     {.min = 1, .max = 64, .min_items = 1},
     kAlways,
     S::kLocked,
     false,
     "channels of each stage, in units of dim"},
    {"model", "dropout", in<&D::model, &ModelConfig::dropout>, fraction(), kAlways, S::kLocked,
     false, "probability"},
    {"model", "attn_heads", in<&D::model, &ModelConfig::attn_heads>, integer(1, 64), kLucid,
     S::kLocked, false, "attention heads"},
    {"model", "attn_dim_head", in<&D::model, &ModelConfig::attn_dim_head>, integer(1, 512), kLucid,
     S::kLocked, false, "channels of an attention head"},
    {"model", "res_blocks", in<&D::model, &ModelConfig::res_blocks>, integer(1, 16), kHo,
     S::kLocked, false, "residual blocks of a stage, on the way down"},
    {"model", "attention_resolutions", in<&D::model, &ModelConfig::attention_resolutions>,
     integer(1, 1024), kHo, S::kLocked, false, "stages that have attention, by their resolution"},
    {"model", "groups", in<&D::model, &ModelConfig::groups>, integer(1, 1024), kHo, S::kLocked,
     false, "groups of group norm"},
    {"model", "activation", in<&D::model, &ModelConfig::activation>, one_of("silu", "relu"), kHo,
     S::kLocked, false, "after every norm but the last, which SiLU follows"},
    {"model", "downsample", in<&D::model, &ModelConfig::downsample>, one_of("conv", "max_pool"),
     kHo, S::kLocked, false, "convolution of stride 2, or convolution, activation and pooling"},

    {"data", "name", in<&D::data, &DataConfig::name>,
     one_of("gmm16", "cifar10", "folder", "synthetic"), kAlways, S::kLocked, true, "the images"},
    {"data", "flip", in<&D::data, &DataConfig::flip>, kSwitch, kAlways, S::kLocked, false,
     "random horizontal flip of training images"},
    {"data", "train_samples", in<&D::data, &DataConfig::train_samples>, integer(0, kMaxCount),
     kGenerated, S::kLocked, false, "images of the training split; 0: all that there are"},
    {"data", "seed", in<&D::data, &DataConfig::seed>, integer(0, kMaxSeed), kGenerated, S::kLocked,
     false, "seed of the generated images"},

    {"diffusion", "timesteps", in<&D::diffusion, &DiffusionConfig::timesteps>, integer(8, 100000),
     kAlways, S::kLocked, false, "T"},
    {"diffusion", "schedule", in<&D::diffusion, &DiffusionConfig::schedule>,
     one_of("linear", "cosine", "sigmoid"), kAlways, S::kLocked, false, "schedule of the noise"},
    {"diffusion", "objective", in<&D::diffusion, &DiffusionConfig::objective>,
     one_of("eps", "x0", "v"), kAlways, S::kLocked, false, "what the network predicts"},
    {"diffusion", "min_snr", in<&D::diffusion, &DiffusionConfig::min_snr>, kSwitch, kAlways,
     S::kLocked, false, "min-SNR weights of the training loss"},
    {"diffusion", "min_snr_gamma", in<&D::diffusion, &DiffusionConfig::min_snr_gamma>, above(0),
     kMinSnr, S::kLocked, false, "where the signal-to-noise ratio is cut"},

    {"optimizer", "name", in<&D::optimizer, &OptimizerConfig::name>, one_of("adam"), kAlways,
     S::kLocked, false, "the optimizer"},
    {"optimizer", "lr", in<&D::optimizer, &OptimizerConfig::lr>, above(0), kAlways, S::kLocked,
     false, "learning rate after warm-up"},
    {"optimizer", "beta1", in<&D::optimizer, &OptimizerConfig::beta1>, fraction(), kAlways,
     S::kLocked, false, "decay of the first moment"},
    {"optimizer", "beta2", in<&D::optimizer, &OptimizerConfig::beta2>, fraction(), kAlways,
     S::kLocked, false, "decay of the second moment"},
    {"optimizer", "eps", in<&D::optimizer, &OptimizerConfig::eps>, above(0), kAlways, S::kLocked,
     false, "added to the root of the second moment"},
    {"optimizer", "clip_norm", in<&D::optimizer, &OptimizerConfig::clip_norm>, at_least(0), kAlways,
     S::kLocked, false, "largest norm of the gradient; 0: not clipped"},
    {"optimizer", "warmup_steps", in<&D::optimizer, &OptimizerConfig::warmup_steps>,
     integer(0, kMaxCount), kAlways, S::kLocked, false, "linear rise of the learning rate from 0"},

    {"ema", "kind", in<&D::ema, &EmaConfig::kind>, one_of("none", "constant", "power"), kAlways,
     S::kLocked, false, "moving average of the weights"},
    {"ema", "decay", in<&D::ema, &EmaConfig::decay>, fraction(), kAnyEma, S::kLocked, false,
     "decay of the average; under power its highest value"},
    {"ema", "update_every", in<&D::ema, &EmaConfig::update_every>, integer(1, kMaxCount), kPowerEma,
     S::kLocked, false, "steps between updates"},
    {"ema", "update_after_step", in<&D::ema, &EmaConfig::update_after_step>, integer(0, kMaxCount),
     kPowerEma, S::kLocked, false, "step until which the average is a copy"},
    {"ema", "inv_gamma", in<&D::ema, &EmaConfig::inv_gamma>, above(0), kPowerEma, S::kLocked, false,
     "decay = 1 - (1 + steps / inv_gamma)^-power"},
    {"ema", "power", in<&D::ema, &EmaConfig::power>, above(0), kPowerEma, S::kLocked, false,
     "see inv_gamma"},

    {"train", "batch", in<&D::train, &TrainConfig::batch>, integer(1, 1048576), kAlways, S::kLocked,
     false, "images of an optimizer step"},
    {"train", "accumulation", in<&D::train, &TrainConfig::accumulation>, integer(1, 1048576),
     kAlways, S::kLocked, false, "micro-batches of an optimizer step"},
    {"train", "steps", in<&D::train, &TrainConfig::steps>, integer(1, kMaxCount), kAlways,
     S::kLocked, false, "optimizer steps"},

    {"scale", "rule", in<&D::scaling, &ScaleConfig::rule>, one_of("none", "linear", "sqrt"),
     kAlways, S::kLocked, false,
     "factor of the learning rate: train.batch / scale.base_batch, or the root of that", kLater},
    {"scale", "base_batch", in<&D::scaling, &ScaleConfig::base_batch>, integer(1, 1048576), kScaled,
     S::kLocked, false, "batch that optimizer.lr was chosen for"},
    {"scale", "warmup_steps", in<&D::scaling, &ScaleConfig::warmup_steps>, integer(0, kMaxCount),
     kScaled, S::kLocked, false, "linear rise of the learning rate from optimizer.lr"},

    {"eval", "samples", in<&D::eval, &EvalConfig::samples>, integer(8, kMaxCount), kAlways,
     S::kLocked, false, "images of the test split, a multiple of 8: 8 timesteps in turn"},
    {"eval", "every", in<&D::eval, &EvalConfig::every>, integer(0, kMaxCount), kAlways, S::kLocked,
     false, "steps between evaluations; 0: at the start and the end"},
    {"eval", "weights", in<&D::eval, &EvalConfig::weights>, one_of("model", "ema"), kAlways,
     S::kLocked, false, "which weights are evaluated"},
    {"eval", "target_loss", in<&D::eval, &EvalConfig::target_loss>, at_least(0), kAlways,
     S::kLocked, false, "loss for the time to quality; 0: none"},

    {"measure", "memory_steps", in<&D::measure, &MeasureConfig::memory_steps>, integer(0, 1000),
     kAlways, S::kLocked, false, "steps of the memory pass; 0: no pass"},
    {"measure", "profile_steps", in<&D::measure, &MeasureConfig::profile_steps>, integer(0, 1000),
     kAlways, S::kLocked, false, "steps of the profile pass; 0: no pass"},

    {"sample", "sampler", in<&D::sample, &SampleConfig::sampler>, one_of("none", "ddim", "ddpm"),
     kAlways, S::kLocked, false, "draws images after training; none: draws none", kLater},
    {"sample", "count", in<&D::sample, &SampleConfig::count>, integer(1, kMaxCount), kSamples,
     S::kLocked, false, "images that are drawn"},
    {"sample", "ddim_steps", in<&D::sample, &SampleConfig::ddim_steps>, integer(1, 100000), kDdim,
     S::kLocked, false, "evaluations of the network for an image"},
    {"sample", "ddim_eta", in<&D::sample, &SampleConfig::ddim_eta>, number(0, 1), kDdim, S::kLocked,
     false, "share of fresh noise: 0 none, 1 as much as ddpm has"},
    {"sample", "grid", in<&D::sample, &SampleConfig::grid>, one_of("lucid", "trailing"), kDdim,
     S::kLocked, false,
     "timesteps of ddim: denoising-diffusion-pytorch's, or diffusers' with that timestep_spacing",
     kLater},
    {"sample", "ddpm_variance", in<&D::sample, &SampleConfig::ddpm_variance>,
     one_of("small", "large"), kDdpm, S::kLocked, false,
     "variance of a step: the posterior's, or beta"},

    {"quality",
     "val_loss_margin",
     in<&D::quality, &QualityConfig::val_loss_margin>,
     {.min = 0, .max = reports::kWidestQualityMargin, .above_min = true},
     kAlways,
     S::kLocked,
     false,
     "share by which a mode may worsen the validation loss",
     kLater},
    {"quality",
     "val_loss_weighted_margin",
     in<&D::quality, &QualityConfig::val_loss_weighted_margin>,
     {.min = 0, .max = reports::kWidestQualityMargin, .above_min = true},
     kAlways,
     S::kLocked,
     false,
     "the same of the loss with the training weights",
     kLater},
    {"quality",
     "time_to_quality_s_margin",
     in<&D::quality, &QualityConfig::time_to_quality_s_margin>,
     {.min = 0, .max = reports::kWidestQualityMargin, .above_min = true},
     kAlways,
     S::kLocked,
     false,
     "the same of the time to eval.target_loss",
     kLater},
    {"quality",
     "samples_to_quality_margin",
     in<&D::quality, &QualityConfig::samples_to_quality_margin>,
     {.min = 0, .max = reports::kWidestQualityMargin, .above_min = true},
     kAlways,
     S::kLocked,
     false,
     "the same of the images to it",
     kLater},
    {"quality",
     "fid_margin",
     in<&D::quality, &QualityConfig::fid_margin>,
     {.min = 0, .max = reports::kWidestQualityMargin, .above_min = true},
     kAlways,
     S::kLocked,
     false,
     "the same of FID",
     kLater},
    {"quality", "kid_margin", in<&D::quality, &QualityConfig::kid_margin>, at_least(0), kAlways,
     S::kLocked, false, "the same of KID, a difference; 0: none", kLater},
    {"quality", "cifarnet_distance_margin",
     in<&D::quality, &QualityConfig::cifarnet_distance_margin>,
     number(0, reports::kWidestQualityMargin), kAlways, S::kLocked, false,
     "the same of the distance by cifarnet; 0: none", kLater},
    {"quality", "gradient_error_max", in<&D::quality, &QualityConfig::gradient_error_max>,
     at_least(0), kAlways, S::kLocked, false,
     "largest relative error of a lossy mode's gradient in one step; 0: by the mode's codec",
     kLater},
    {"quality", "extractor", in<&D::quality, &QualityConfig::extractor>, any_or(kExtractors),
     kAlways, S::kLocked, false, "what a distance of samples must be made with to count", kLater},
    {"quality", "resize", in<&D::quality, &QualityConfig::resize>,
     one_of("tf1-bilinear", "bilinear"), kInception, S::kLocked, false, "the same of the resize"},
    {"quality", "reference", in<&D::quality, &QualityConfig::reference>, kAny, kAlways, S::kLocked,
     false, "what it must be taken to: a name without folders, or the SHA-256 of moments; or any",
     kLater},
};

}  // namespace

std::span<const Key> keys() {
  return kKeys;
}

std::string key_path(const Key& key) {
  return std::string(key.section) + "." + std::string(key.name);
}

const Key* find_key(std::string_view path) {
  const auto* found = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& key) {
    return path.size() == key.section.size() + 1 + key.name.size() &&
           path.starts_with(key.section) && path[key.section.size()] == '.' &&
           path.ends_with(key.name);
  });
  return found == std::end(kKeys) ? nullptr : found;
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const Key& key : kKeys) {
    if (names.empty() || names.back() != key.section) names.emplace_back(key.section);
  }
  return names;
}

bool applies(const Key& key, const Definition& definition) {
  if (key.condition.key.empty()) return true;
  const Key* other = find_key(key.condition.key);
  // member() only hands out addresses; nothing is written through them here.
  const Member member = other->member(const_cast<Definition&>(definition));
  std::string current;
  if (const auto* text = std::get_if<std::string*>(&member)) current = **text;
  if (const auto* flag = std::get_if<bool*>(&member)) current = **flag ? "true" : "false";
  const auto& values = key.condition.values;
  return !current.empty() && std::find(values.begin(), values.end(), current) != values.end();
}

namespace {

template <class T>
constexpr bool kIsList =
    std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<std::string>>;
template <class T>
constexpr bool kIsInteger = std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>;

std::string in_quotes(std::string_view text) {
  return fmt::format("\"{}\"", text);
}

// " from 1 to 64", " of at least 0", " above 0 and below 1" ...
std::string range_text(const Accepted& accepted, bool integral) {
  const auto text = [&](double bound) {
    return integral ? fmt::format("{}", static_cast<int64_t>(bound)) : number_text(bound);
  };
  const bool low = std::isfinite(accepted.min);
  const bool high = std::isfinite(accepted.max);
  if (low && high && !accepted.above_min && !accepted.below_max) {
    return fmt::format(" from {} to {}", text(accepted.min), text(accepted.max));
  }
  std::vector<std::string> parts;
  if (low) parts.push_back((accepted.above_min ? "above " : "of at least ") + text(accepted.min));
  if (high) parts.push_back((accepted.below_max ? "below " : "of at most ") + text(accepted.max));
  return fmt::format("{}{}", parts.empty() ? "" : " ", fmt::join(parts, " and "));
}

std::vector<std::string> choices_of(const Accepted& accepted) {
  std::vector<std::string> choices;
  for (const std::string_view choice : accepted.choices) {
    if (!choice.empty()) choices.emplace_back(choice);
  }
  return choices;
}

std::string choices_text(const Accepted& accepted) {
  std::vector<std::string> choices = choices_of(accepted);
  for (std::string& choice : choices) choice = in_quotes(choice);
  return fmt::format("{}", fmt::join(choices, ", "));
}

bool in_range(const Accepted& accepted, double value) {
  const bool low = accepted.above_min ? value > accepted.min : value >= accepted.min;
  const bool high = accepted.below_max ? value < accepted.max : value <= accepted.max;
  return low && high && std::isfinite(value);
}

bool acceptable(const Accepted& accepted, const std::string& value) {
  if (accepted.choices.front().empty()) return !value.empty();
  for (const std::string_view choice : accepted.choices) {
    if (!choice.empty() && choice == value) return true;
  }
  return false;
}

template <class T>
bool acceptable(const Accepted& accepted, const std::vector<T>& values) {
  if (static_cast<int64_t>(values.size()) < accepted.min_items) return false;
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!acceptable(accepted, value)) return false;
    } else if (!in_range(accepted, static_cast<double>(value))) {
      return false;
    }
  }
  return true;
}

// Stores `value` in `target` when it has the right type and is acceptable.
template <class T>
bool store(const Accepted& accepted, const Value& value, T& target) {
  if constexpr (std::is_same_v<T, double>) {
    const auto* integer = std::get_if<int64_t>(&value);
    const auto* real = std::get_if<double>(&value);
    if (integer == nullptr && real == nullptr) return false;
    const double number = real != nullptr ? *real : static_cast<double>(*integer);
    if (!in_range(accepted, number)) return false;
    target = number;
  } else if constexpr (kIsInteger<T>) {
    const auto* integer = std::get_if<int64_t>(&value);
    if (integer == nullptr || !in_range(accepted, static_cast<double>(*integer))) return false;
    target = static_cast<T>(*integer);
  } else if constexpr (std::is_same_v<T, bool>) {
    const auto* flag = std::get_if<bool>(&value);
    if (flag == nullptr) return false;
    target = *flag;
  } else {
    const auto* given = std::get_if<T>(&value);
    // An empty list has no element type.
    const auto* empty = kIsList<T> ? std::get_if<std::vector<int64_t>>(&value) : nullptr;
    if (given == nullptr && (empty == nullptr || !empty->empty())) return false;
    const T wanted = given != nullptr ? *given : T{};
    if (!acceptable(accepted, wanted)) return false;
    target = wanted;
  }
  return true;
}

Member member_of(const Key& key, const Definition& definition) {
  return key.member(const_cast<Definition&>(definition));  // all callers only read
}

std::string text_of(const std::string& value) {
  return in_quotes(value);
}
std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(double value) {
  return number_text(value);
}
std::string text_of(int64_t value) {
  return std::to_string(value);
}
std::string text_of(uint64_t value) {
  return std::to_string(value);
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(text_of(value));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// accepted_text(), after the choice that was most likely meant.
std::string accepted_instead_of(const Value& value, const Key& key) {
  const auto* given = std::get_if<std::string>(&value);
  const std::string accepted = accepted_text(key);
  if (given == nullptr) return accepted;
  const auto near = reports::nearest(*given, choices_of(key.accepted));
  return near ? "nearest " + in_quotes(*near) + "; " + accepted : accepted;
}

}  // namespace

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string value_text(const Value& value) {
  return std::visit([](const auto& v) { return text_of(v); }, value);
}

std::string value_text(const Key& key, const Definition& definition) {
  return std::visit([](const auto* v) { return text_of(*v); }, member_of(key, definition));
}

std::string_view type_text(const Key& key) {
  static constexpr std::string_view kNames[] = {
      "string", "integer", "integer", "number", "switch", "list of integers", "list of strings"};
  return kNames[member_of(key, Definition{}).index()];
}

std::string accepted_text(const Key& key) {
  const std::string_view type = type_text(key);
  const Accepted& accepted = key.accepted;
  const std::string some = accepted.min_items > 0 ? ", at least one" : "";
  if (type == "string") {
    return accepted.choices.front().empty() ? "a string that is not empty"
                                            : "one of: " + choices_text(accepted);
  }
  if (type == "integer") return "an integer" + range_text(accepted, true);
  if (type == "number") {
    const bool bounded = std::isfinite(accepted.min) && std::isfinite(accepted.max);
    return (bounded ? "a number" : "a finite number") + range_text(accepted, false);
  }
  if (type == "switch") return "true or false";
  if (type == "list of strings") {
    return accepted.choices.front().empty() ? "a list of strings" + some
                                            : "a list of any of: " + choices_text(accepted);
  }
  return "a list of integers" + range_text(accepted, true) + some;
}

std::string condition_text(const Key& key) {
  if (key.condition.key.empty()) return "";
  std::vector<std::string> values;
  for (const std::string_view value : key.condition.values) {
    if (!value.empty()) values.push_back(value == "true" ? "true" : in_quotes(value));
  }
  return fmt::format("only when {} is {}", key.condition.key, fmt::join(values, " or "));
}

void assign(const Key& key, const Value& value, const std::string& where, Definition& definition) {
  const bool stored = std::visit([&](auto* target) { return store(key.accepted, value, *target); },
                                 key.member(definition));
  if (!stored) {
    throw bad_input(where, key_path(key), value_text(value), accepted_instead_of(value, key));
  }
}

std::string keys_markdown() {
  const Definition defaults;
  std::string text = "| key | accepted | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : keys()) {
    const std::string condition = condition_text(key);
    text += fmt::format("| `{}` | {} | {} | {}{}{} |\n", key_path(key), accepted_text(key),
                        key.required ? "required" : fmt::format("`{}`", value_text(key, defaults)),
                        key.help, condition.empty() ? "" : "; ", condition);
  }
  return text;
}

}  // namespace noisemark::suite
