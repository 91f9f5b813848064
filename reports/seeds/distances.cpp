#include "reports/seeds/distances.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/json.h"
#include "reports/result/definition.h"
#include "reports/seeds/variants.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kVersion = 1;
constexpr size_t kShownDigits = 12;  // of a checksum
constexpr const char* kFolder = "distances";

/// Returns null where the key is absent: keys came one by one.
const Json& part(const Json& json, const char* key) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

std::string shown(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json.dump();
}

/// A key of the definition, what it locks and what was found.
struct Locked {
  std::string key;
  Json wanted;
  Json found;
};

/// The keys of [sample], which a definition has where its sampler is not "none".
std::vector<Locked> sampling_keys(const DefinitionView& definition, const Json& drawn,
                                  const DistanceOrigin& origin, const Result& run) {
  if (!definition.sample) return {};
  const DefinitionView::Sample& sample = *definition.sample;
  const Json sampler = part(drawn, "sampler");
  std::vector<Locked> keys = {
      {"sample.sampler", or_null(sample.sampler), part(sampler, "name")},
      {"sample.count", or_null(sample.count), origin.samples},
      {"sample.ddim_steps", or_null(sample.ddim_steps), part(sampler, "steps")},
      {"sample.ddim_eta", or_null(sample.ddim_eta), part(sampler, "eta")},
      {"sample.grid", or_null(sample.grid), part(sampler, "grid")},
      {"sample.ddpm_variance", or_null(sample.ddpm_variance), part(sampler, "variance")},
      {"the seed", run.seeds.base, part(drawn, "seed")}};
  if (const Json source = part(part(drawn, "noise"), "source"); source.is_string()) {
    keys.push_back({"the initial noise", "drawn", source});
  }
  if (!origin.weights.empty()) {
    keys.push_back({"eval.weights", or_null(definition.eval_weights), origin.weights});
  }
  return keys;
}

std::vector<Locked> distance_keys(const DefinitionView& definition, const DistanceOrigin& origin) {
  // These are left out of the definition while they are "any".
  std::vector<Locked> keys = {
      {"quality.extractor", or_null(definition.quality_extractor), origin.extractor},
      {"quality.resize", or_null(definition.quality_resize), origin.resize},
  };
  const std::optional<std::string>& reference = definition.quality_reference;
  if (reference != origin.reference_sha256) {
    keys.push_back({"quality.reference", or_null(reference), origin.reference});
  }
  return keys;
}

/// Says how a distance departs from what the definition of its run locks: with a sampler, the keys
/// of [sample], the seed and eval.weights; with quality.extractor, its resize; with
/// quality.reference, the reference's name or the SHA-256 of its moments. `drawn` is what
/// sampling.json says. Empty: it does not depart, or nothing is locked.
std::string why_not_locked_sampling(const Json& drawn, const DistanceOrigin& origin,
                                    const Result& run) {
  const DefinitionView definition = definition_of(run);
  std::vector<Locked> keys = sampling_keys(definition, drawn, origin, run);
  for (Locked& one : distance_keys(definition, origin)) keys.push_back(std::move(one));
  for (const Locked& one : keys) {
    if (one.wanted.is_null() || one.wanted == one.found) continue;
    return fmt::format("{}: {}, and the run's definition locks {}", one.key, shown(one.found),
                       shown(one.wanted));
  }
  return "";
}

std::string text_of(const Json& json) {
  return json.is_string() ? json.get<std::string>() : "";
}

std::optional<double> number_of(const Json& json) {
  if (!json.is_number() || !std::isfinite(json.get<double>())) return std::nullopt;
  return json.get<double>();
}

std::optional<Interval> interval_of(const Json& json) {
  const auto low = number_of(part(json, "low"));
  const auto high = number_of(part(json, "high"));
  if (!low || !high) return std::nullopt;
  return Interval{*low, *high};
}

std::string sampler_of(const Json& drawn) {
  const Json& sampler = drawn.at("sampler");
  const auto name = sampler.at("name").get<std::string>();
  const char* setting = name == "ddim" ? "eta" : "variance";
  const Json& value = sampler.at(setting);
  return fmt::format("{}, {} steps, {} {}", name, sampler.at("steps").get<int64_t>(), setting,
                     value.is_string() ? value.get<std::string>() : value.dump());
}

std::string definition_of(const Json& drawn) {
  const Json& definition = part(drawn, "definition");
  if (!definition.is_object()) return "";
  return fmt::format("{}@{} {}{}", text_of(part(definition, "id")),
                     text_of(part(definition, "scale")),
                     text_of(part(definition, "sha256")).substr(0, kShownDigits),
                     part(definition, "custom") == true ? " (custom)" : "");
}

/// Seeds differ from run to run; that each has its own is what they have in common.
std::string noise_of(const Json& drawn, const Result& run) {
  const Json& seed = part(drawn, "seed");
  if (!seed.is_number_unsigned()) return "";
  const auto number = seed.get<uint64_t>();
  const std::string words =
      number == run.seeds.base ? "the run's seed" : fmt::format("seed {}", number);
  const Json& noise = drawn.at("noise");
  if (text_of(part(noise, "source")) != "file") return words;
  return fmt::format("a file {}, {}", text_of(part(noise, "sha256")).substr(0, kShownDigits),
                     words);
}

/// Likewise: samples of modes in other precisions differ in nothing else.
std::string precision_of(const Json& drawn, const Result& run) {
  const std::string precision = text_of(part(part(drawn, "execution"), "precision"));
  return !precision.empty() && precision == run.identity.precision ? "the run's" : precision;
}

std::optional<KernelOrigin> kernel_of(const Json& kernel) {
  if (!kernel.is_object()) return std::nullopt;
  KernelOrigin origin;
  origin.subsets = kernel.value("subsets", int64_t{0});
  origin.subset_size = kernel.value("subset_size", int64_t{0});
  origin.draws = text_of(part(kernel, "draws"));
  const Json& seed = part(kernel, "seed");
  if (seed.is_number_unsigned()) origin.seed = seed.get<uint64_t>();
  return origin;
}

/// Reads one distance file, metric by metric.
class DistanceFile {
 public:
  DistanceFile(const Json& json, const Result& run, const std::string& file)
      : json_(json), a_(json.at("a")), b_(json.at("b")), run_(run) {
    distance_.run_id = run.run_id;
    distance_.file = file;
    fill_origin();
    distance_.problem = problem();
  }

  [[nodiscard]] std::vector<RunDistance> all() const {
    const auto name = json_.at("name").get<std::string>();
    const bool fid = name == "FID";
    std::vector<RunDistance> distances = {frechet_distance(fid, name)};
    if (json_.contains("kernel")) distances.push_back(kernel_distance(fid, name));
    if (json_.contains("precision_frac")) {
      distances.push_back(higher("_precision", "precision", json_["precision_frac"]));
      distances.push_back(higher("_recall", "recall", json_.at("recall_frac")));
    }
    if (json_.contains("inception_score")) distances.push_back(score());
    return distances;
  }

 private:
  void fill_origin() {
    DistanceOrigin& origin = distance_.origin;
    const Json& extractor = part(a_, "extractor");
    origin.extractor = text_of(part(extractor, "name"));
    origin.checksum = text_of(part(extractor, "checksum"));
    origin.resize = text_of(part(extractor, "resize"));
    origin.resize_asserted =
        part(a_, "extractor_asserted") == true || part(b_, "extractor_asserted") == true;
    origin.dimension = json_.at("d").get<int64_t>();
    origin.samples = a_.at("n").is_null() ? 0 : a_.at("n").get<int64_t>();
    origin.reference = fs::path(b_.at("name").get<std::string>()).filename().string();
    if (!b_.at("n").is_null()) origin.reference_samples = b_.at("n").get<int64_t>();
    origin.reference_sha256 = text_of(part(b_, "moments_sha256"));
    const Json& drawn = part(a_, "drawn");
    if (!drawn.is_object()) return;
    origin.definition = definition_of(drawn);
    origin.sampler = sampler_of(drawn);
    origin.weights = text_of(drawn.at("weights").at("kind"));
    origin.noise = noise_of(drawn, run_);
    origin.precision = precision_of(drawn, run_);
    distance_.noise_sha256 = text_of(drawn.at("noise").at("sha256"));
  }

  [[nodiscard]] bool to_itself() const { return part(b_, "exact") == true; }

  [[nodiscard]] std::string prefix() const {
    const std::string& extractor = distance_.origin.extractor;
    if (!extractor.empty()) return extractor;
    return to_itself() ? "mixture" : "unknown";
  }

  [[nodiscard]] std::string problem() const {
    const Json& drawn = part(a_, "drawn");
    if (!drawn.is_object()) return "nothing says which weights drew the samples";
    const auto sha256 = text_of(drawn.at("weights").at("sha256"));
    const Determinism& trained = run_.determinism;
    if (sha256.empty() || (sha256 != trained.weights_sha256 && sha256 != trained.ema_sha256)) {
      return "the samples were drawn with other weights than this run's";
    }
    if (std::string words = extractor_problem(); !words.empty()) return words;
    return why_not_locked_sampling(drawn, distance_.origin, run_);
  }

  [[nodiscard]] std::string extractor_problem() const {
    const Json& a = part(a_, "extractor");
    const Json& b = part(b_, "extractor");
    if (a.is_null() && b.is_null()) return to_itself() ? "" : "nobody says what made the features";
    if (a.is_null() || b.is_null()) {
      return "nobody says which extractor and resize made one of the sets";
    }
    for (const char* key : {"name", "checksum", "resize"}) {
      const std::string one = text_of(part(a, key));
      const std::string other = text_of(part(b, key));
      if (one == other) continue;
      return fmt::format("the sets are not of one extractor: {} {} and {}", key, one, other);
    }
    return "";
  }

  /// Says what is wrong with the covariances, which the Fréchet distance alone is made of.
  [[nodiscard]] std::string why_too_few() const {
    for (const Json* set : {&a_, &b_}) {
      if (!set->at("gateable").get<bool>()) return why_not_gateable(*set);
    }
    return "";
  }

  [[nodiscard]] std::string why_not_gateable(const Json& set) const {
    const std::string words = text_of(part(set, "why_no_gate"));
    if (!words.empty()) return words;
    return fmt::format("fewer than 2 d = {} samples: N = {}", 2 * distance_.origin.dimension,
                       distance_.origin.samples);
  }

  [[nodiscard]] RunDistance named(const std::string& metric, const std::string& name,
                                  const Json& value) const {
    RunDistance one = distance_;
    one.origin.metric = metric;
    one.origin.name = name;
    one.value = number_of(value);
    if (!one.value) one.problem = "it is no finite number";
    return one;
  }

  [[nodiscard]] RunDistance frechet_distance(bool fid, const std::string& name) const {
    RunDistance one = named(fid ? "fid" : prefix() + "_distance", name, json_.at("value"));
    one.interval = interval_of(part(json_, "bootstrap"));
    if (one.problem.empty()) one.problem = why_too_few();
    return one;
  }

  [[nodiscard]] RunDistance kernel_distance(bool fid, const std::string& name) const {
    const Json& kernel = json_.at("kernel");
    RunDistance one = named(fid ? "kid" : prefix() + "_kernel_distance",
                            fid ? "KID" : name + ", kernel", kernel.at("mean"));
    one.origin.kernel = kernel_of(kernel);
    one.standard_error = number_of(part(kernel, "standard_error"));
    if (one.problem.empty() && !one.standard_error) {
      one.problem = "no standard error: subsets of more than half of a set are almost the same set";
    }
    return one;
  }

  [[nodiscard]] RunDistance higher(const std::string& suffix, const std::string& name,
                                   const Json& value) const {
    RunDistance one = named(prefix() + suffix, name, value);
    one.direction = Direction::kHigher;
    return one;
  }

  /// A score of the samples alone: the reference plays no part, but they have it in common.
  [[nodiscard]] RunDistance score() const {
    const Json& score = json_.at("inception_score");
    RunDistance one = higher("_class_score", score.at("name").get<std::string>(), score.at("mean"));
    if (one.origin.name == "Inception score") one.origin.metric = "inception_score";
    return one;
  }

  const Json& json_;
  const Json& a_;
  const Json& b_;
  const Result& run_;
  RunDistance distance_;
};

/// Returns the metrics that one distance file says of the samples of `run`. Throws Error (bad
/// input), beginning with `where`, for what is no such file.
std::vector<RunDistance> distances_in(const std::string& text, const Result& run,
                                      const std::string& file, const std::string& where) {
  const Json json = Json::parse(text, nullptr, false);
  try {
    if (json.at("schema") != "noisemark.distance" || json.at("version") != kVersion) {
      throw bad_input(where, "schema", json.at("schema").dump(), "noisemark.distance 1");
    }
    return DistanceFile(json, run, file).all();
  } catch (const Json::exception& error) {
    throw bad_input(where, "", fault_words(text, error), "what `noisemark fid --json` writes");
  }
}

std::vector<RunDistance> read_file_of(const fs::path& file, const Result& run) {
  return distances_in(read_file(file), run, fmt::format("{}/{}", kFolder, file.filename().string()),
                      file.string());
}

fs::path folder_of(const NamedResult& run) {
  const fs::path path = run.name;
  return fs::is_directory(path) ? path : path.parent_path();
}

std::vector<fs::path> files_of(const NamedResult& run) {
  const fs::path folder = folder_of(run) / kFolder;
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

const NamedResult& run_of(const RunDistance& distance, const Side& side) {
  return *std::find_if(side.runs.begin(), side.runs.end(), [&](const NamedResult& run) {
    return run.result.run_id == distance.run_id;
  });
}

void require_each_once(const std::vector<RunDistance>& of_a_run) {
  std::map<std::string, std::string> files;
  for (const RunDistance& one : of_a_run) {
    const auto [first, is_new] = files.emplace(one.origin.metric, one.file);
    if (is_new) continue;
    throw bad_input(one.file, "", one.origin.metric + " a second time, as in " + first->second,
                    "each once");
  }
}

}  // namespace

std::vector<RunDistance> read_distances(const Side& side) {
  std::vector<RunDistance> all;
  for (const NamedResult& run : side.runs) {
    std::vector<RunDistance> of_run;
    for (const fs::path& file : files_of(run)) {
      for (RunDistance& one : read_file_of(file, run.result)) of_run.push_back(std::move(one));
    }
    require_each_once(of_run);
    all.insert(all.end(), of_run.begin(), of_run.end());
  }
  return all;
}

void attach_distances(const std::vector<RunDistance>& distances, Side& side) {
  for (NamedResult& run : side.runs) {
    for (const RunDistance& distance : distances) {
      if (distance.run_id != run.result.run_id) continue;
      Metric metric{distance.origin.metric,
                    "1",
                    distance.direction,
                    {},
                    distance.problem,
                    "exact",
                    {},
                    1,
                    ""};
      if (distance.problem.empty()) metric.value = distance.value;
      std::erase_if(run.result.metrics,
                    [&](const Metric& other) { return other.name == metric.name; });
      run.result.metrics.push_back(std::move(metric));
    }
  }
}

std::vector<DistanceValue> distance_values(const std::vector<RunDistance>& distances,
                                           const Side& side) {
  std::vector<DistanceValue> values;
  for (const RunDistance& one : distances) {
    const Result& run = run_of(one, side).result;
    DistanceValue value;
    value.benchmark = workload_name(run.identity);
    value.variant = variant_name(run.identity);
    value.seed = run.seeds.base;
    value.metric = one.origin.metric;
    value.samples = one.origin.samples;
    value.value = one.value;
    value.standard_error = one.standard_error;
    value.interval = one.interval;
    value.problem = one.problem;
    values.push_back(std::move(value));
  }
  std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) {
    return std::tie(a.benchmark, a.variant, a.seed, a.metric) <
           std::tie(b.benchmark, b.variant, b.seed, b.metric);
  });
  return values;
}

std::vector<std::string> distance_problems(const std::vector<RunDistance>& distances,
                                           const Side& side) {
  std::map<std::string, DistanceOrigin> origins;
  std::map<std::tuple<std::string, std::string, uint64_t>, std::string> noises;
  std::set<std::string> problems;
  for (const RunDistance& one : distances) {
    const Result& run = run_of(one, side).result;
    const std::string workload = workload_name(run.identity);
    const std::string metric = fmt::format("{}: {}", workload, one.origin.metric);
    const auto [origin, first] = origins.emplace(metric, one.origin);
    if (!first && origin->second != one.origin) {
      problems.insert(metric + ": not measured in the same way in every run");
    }
    const auto [noise, first_noise] =
        noises.emplace(std::tuple(workload, one.origin.metric, run.seeds.base), one.noise_sha256);
    if (!first_noise && noise->second != one.noise_sha256) {
      problems.insert(fmt::format("{}: other initial noise under another mode, seed {}", metric,
                                  run.seeds.base));
    }
  }
  return {problems.begin(), problems.end()};
}

}  // namespace noisemark::reports
