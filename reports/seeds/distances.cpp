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

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/json.h"
#include "reports/base/json_reader.h"
#include "reports/base/sha256.h"
#include "reports/render/check.h"
#include "reports/result/definition.h"
#include "reports/seeds/distance_file.h"
#include "reports/seeds/variants.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFolder = "distances";

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
std::vector<Locked> sampling_keys(const DefinitionView& definition, const DrawnSamples& drawn,
                                  const DistanceOrigin& origin, const Result& run) {
  if (!definition.sample) return {};
  const DefinitionView::Sample& sample = *definition.sample;
  const DrawnSamples::Sampler& sampler = drawn.sampler;
  std::vector<Locked> keys = {
      {"sample.sampler", or_null(sample.sampler), sampler.name},
      {"sample.count", or_null(sample.count), origin.samples},
      {"sample.ddim_steps", or_null(sample.ddim_steps), sampler.steps},
      {"sample.ddim_eta", or_null(sample.ddim_eta), or_null(sampler.eta)},
      {"sample.grid", or_null(sample.grid), or_null(sampler.grid)},
      {"sample.ddpm_variance", or_null(sample.ddpm_variance), or_null(sampler.variance)},
      {"the seed", run.seeds.base, or_null(drawn.seed)},
      {"the initial noise", "drawn", drawn.noise.source}};
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
/// sampling.json says. It is empty where it does not depart, or nothing is locked.
std::string why_not_locked_sampling(const DrawnSamples& drawn, const DistanceOrigin& origin,
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

std::string sampler_of(const DrawnSamples::Sampler& sampler) {
  const bool ddim = sampler.name == "ddim";
  return fmt::format("{}, {} steps, {} {}", sampler.name, sampler.steps, ddim ? "eta" : "variance",
                     shown(ddim ? or_null(sampler.eta) : or_null(sampler.variance)));
}

std::string definition_words(const DrawnSamples::Definition& definition) {
  return fmt::format("{}@{} {}{}", definition.id, definition.scale, shown_digits(definition.sha256),
                     definition.custom ? " (custom)" : "");
}

/// Runs have different seeds, and are comparable where each drew with its own.
std::string noise_of(const DrawnSamples& drawn, const Result& run) {
  if (!drawn.seed) return "";
  const std::string words =
      *drawn.seed == run.seeds.base ? "the run's seed" : fmt::format("seed {}", *drawn.seed);
  if (drawn.noise.source != "file") return words;
  return fmt::format("a file {}, {}", shown_digits(drawn.noise.sha256), words);
}

/// Runs in different precisions are comparable where each drew its samples in its own.
std::string precision_of(const DrawnSamples& drawn, const Result& run) {
  const std::string precision = drawn.execution ? drawn.execution->precision : "";
  return !precision.empty() && precision == run.identity.precision ? "the run's" : precision;
}

/// The metrics of one distance file.
class DistanceMetrics {
 public:
  DistanceMetrics(const DistanceFile& file, const Result& run, const std::string& name)
      : file_(file), run_(run) {
    distance_.run_id = run.run_id;
    distance_.file = name;
    fill_origin();
    distance_.problem = problem();
  }

  [[nodiscard]] std::vector<RunDistance> all() const {
    const bool fid = file_.name == "FID";
    std::vector<RunDistance> distances = {frechet_distance(fid)};
    if (file_.kernel) distances.push_back(kernel_distance(fid));
    if (file_.precision_frac) {
      distances.push_back(higher("_precision", "precision", file_.precision_frac));
      distances.push_back(higher("_recall", "recall", file_.recall_frac));
    }
    if (file_.inception_score) distances.push_back(score());
    return distances;
  }

 private:
  void fill_origin() {
    DistanceOrigin& origin = distance_.origin;
    if (const auto& extractor = file_.a.extractor) {
      origin.extractor = extractor->name;
      origin.checksum = extractor->checksum;
      origin.resize = extractor->resize;
    }
    origin.resize_asserted = file_.a.extractor_asserted || file_.b.extractor_asserted;
    origin.dimension = file_.d;
    origin.samples = file_.a.n.value_or(0);
    origin.reference = fs::path(file_.b.name).filename().string();
    origin.reference_samples = file_.b.n;
    origin.reference_sha256 = file_.b.moments_sha256.value_or("");
    if (!file_.a.drawn) return;
    const DrawnSamples& drawn = *file_.a.drawn;
    if (drawn.definition) origin.definition = definition_words(*drawn.definition);
    origin.sampler = sampler_of(drawn.sampler);
    origin.weights = drawn.weights.kind.value_or("");
    origin.noise = noise_of(drawn, run_);
    origin.precision = precision_of(drawn, run_);
    distance_.noise_sha256 = drawn.noise.sha256;
  }

  [[nodiscard]] std::string prefix() const {
    const std::string& extractor = distance_.origin.extractor;
    if (!extractor.empty()) return extractor;
    return file_.b.exact ? "mixture" : "unknown";
  }

  [[nodiscard]] std::string problem() const {
    if (!file_.a.drawn) return "nothing says which weights drew the samples";
    const std::string& sha256 = file_.a.drawn->weights.sha256;
    const Determinism& trained = run_.determinism;
    if (sha256.empty() || (sha256 != trained.weights_sha256 && sha256 != trained.ema_sha256)) {
      return "the samples were drawn with other weights than this run's";
    }
    if (std::string words = extractor_problem(); !words.empty()) return words;
    return why_not_locked_sampling(*file_.a.drawn, distance_.origin, run_);
  }

  [[nodiscard]] std::string extractor_problem() const {
    using Extractor = DistanceFile::Extractor;
    const std::optional<Extractor>& a = file_.a.extractor;
    const std::optional<Extractor>& b = file_.b.extractor;
    if (!a && !b) return file_.b.exact ? "" : "nobody says what made the features";
    if (!a || !b) return "nobody says which extractor and resize made one of the sets";
    for (const auto& [key, member] :
         {std::pair{"name", &Extractor::name}, std::pair{"checksum", &Extractor::checksum},
          std::pair{"resize", &Extractor::resize}}) {
      if ((*a).*member == (*b).*member) continue;
      return fmt::format("the sets are not of one extractor: {} {} and {}", key, (*a).*member,
                         (*b).*member);
    }
    return "";
  }

  /// Says what is wrong with the covariances, which the Fréchet distance alone is made of.
  [[nodiscard]] std::string why_too_few() const {
    for (const DistanceFile::Set* set : {&file_.a, &file_.b}) {
      if (set->gateable) continue;
      return set->why_no_gate.value_or(fmt::format("fewer than 2 d = {} samples: N = {}",
                                                   2 * distance_.origin.dimension,
                                                   distance_.origin.samples));
    }
    return "";
  }

  [[nodiscard]] RunDistance named(const std::string& metric, const std::string& name,
                                  std::optional<double> value) const {
    RunDistance one = distance_;
    one.origin.metric = metric;
    one.origin.name = name;
    if (value && std::isfinite(*value)) one.value = value;
    if (!one.value) one.problem = "it is no finite number";
    return one;
  }

  [[nodiscard]] RunDistance frechet_distance(bool fid) const {
    RunDistance one = named(fid ? "fid" : prefix() + "_distance", file_.name, file_.value);
    if (const auto& drawn = file_.bootstrap) one.interval = Interval{drawn->low, drawn->high};
    if (one.problem.empty()) one.problem = why_too_few();
    return one;
  }

  [[nodiscard]] RunDistance kernel_distance(bool fid) const {
    const DistanceFile::Kernel& kernel = *file_.kernel;
    RunDistance one = named(fid ? "kid" : prefix() + "_kernel_distance",
                            fid ? "KID" : file_.name + ", kernel", kernel.mean);
    one.origin.kernel = KernelOrigin{kernel.subsets, kernel.subset_size, kernel.draws, kernel.seed};
    one.standard_error = kernel.standard_error;
    if (one.problem.empty() && !one.standard_error) {
      one.problem = "no standard error: subsets of more than half of a set are almost the same set";
    }
    return one;
  }

  [[nodiscard]] RunDistance higher(const std::string& suffix, const std::string& name,
                                   std::optional<double> value) const {
    RunDistance one = named(prefix() + suffix, name, value);
    one.direction = Direction::kHigher;
    return one;
  }

  /// A score of the samples alone: the reference plays no part, but they have it in common.
  [[nodiscard]] RunDistance score() const {
    const DistanceFile::Score& score = *file_.inception_score;
    RunDistance one = higher("_class_score", score.name, score.mean);
    if (one.origin.name == "Inception score") one.origin.metric = "inception_score";
    return one;
  }

  const DistanceFile& file_;
  const Result& run_;
  RunDistance distance_;
};

/// Returns the metrics that one distance file says of the samples of `run`. Throws Error (bad
/// input), beginning with `where`, for what is no such file.
std::vector<RunDistance> distances_in(const std::string& text, const Result& run,
                                      const std::string& name, const std::string& where) {
  const auto file = read_document<DistanceFile>(text, json::kDistanceDocument, where);
  return DistanceMetrics(file, run, name).all();
}

fs::path folder_of(const NamedResult& run) {
  const fs::path path = run.name;
  return fs::is_directory(path) ? path : path.parent_path();
}

std::vector<fs::path> files_of(const NamedResult& run) {
  const fs::path folder = folder_of(run) / kFolder;
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& entry : read_folder(folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The files with their texts. What cannot be read goes to `lost`.
std::map<fs::path, std::string> texts_of(const NamedResult& run, std::vector<LostRun>& lost) {
  std::map<fs::path, std::string> texts;
  std::vector<Finding> unreadable;
  or_lost(folder_of(run) / kFolder, &unreadable, [&] {
    for (const fs::path& file : files_of(run)) {
      or_lost(file, &unreadable, [&] { texts[file] = read_file(file); });
    }
  });
  for (const Finding& one : unreadable) lost.push_back({one.file, one.words});
  return texts;
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

std::vector<RunDistance> read_distances(Side& side) {
  std::vector<RunDistance> all;
  for (const NamedResult& run : side.runs) {
    std::vector<RunDistance> of_run;
    for (const auto& [file, text] : texts_of(run, side.lost)) {
      const std::string name = fmt::format("{}/{}", kFolder, file.filename().string());
      for (RunDistance& one : distances_in(text, run.result, name, file.string())) {
        of_run.push_back(std::move(one));
      }
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
