#include "suite/quality/set_distance.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <system_error>

#include "reports/base/error.h"
#include "reports/base/quantity.h"

namespace noisemark::suite {
namespace {

using reports::format_count;

/// Samples as they were drawn have fewer numbers than images, which are of three channels.
std::string same_number(const FeatureSet& a, const FeatureSet& b) {
  for (const FeatureSet* set : {&a, &b}) {
    const std::filesystem::path path = set->name;
    if (path.filename() != "samples.npy") continue;
    const std::filesystem::path pictures = path.parent_path() / "pictures";
    std::error_code unknown;
    if (!std::filesystem::is_directory(pictures, unknown)) continue;
    return fmt::format("the same number in both sets: {} are these samples as images",
                       pictures.string());
  }
  return "the same number in both sets";
}

void require_comparable(const FeatureSet& a, const FeatureSet& b) {
  if (a.channels != b.channels && a.channels != 0 && b.channels != 0) {
    throw bad_input(fmt::format("{} and {}", a.name, b.name), "channels",
                    fmt::format("{} and {} per image", a.channels, b.channels),
                    "the same number in both sets");
  }
  if (a.dimension != b.dimension) {
    throw bad_input(
        fmt::format("{} and {}", a.name, b.name), "features",
        fmt::format("{} and {} per sample", format_count(a.dimension), format_count(b.dimension)),
        same_number(a, b));
  }
  if (!a.extractor || !b.extractor || same_extractor(*a.extractor, *b.extractor)) return;
  throw Error(ExitCode::kNotComparable,
              fmt::format("{} and {}: features of different extractors: {} and {}", a.name, b.name,
                          extractor_json(*a.extractor), extractor_json(*b.extractor)));
}

std::string name_of(const FeatureSet& a, const FeatureSet& b) {
  return a.extractor && b.extractor ? a.extractor->distance : "Fréchet distance";
}

bool by_features(const FeatureSet& set) {
  return set.features.defined() && set.samples <= set.dimension;
}

FrechetDistance frechet_between(const FeatureSet& a, const FeatureSet& b) {
  if (by_features(a) && by_features(b)) return frechet_distance(a.features, b.features);
  if (by_features(a)) return frechet_distance(a.features, gaussian_of(b));
  if (by_features(b)) return frechet_distance(b.features, gaussian_of(a));
  return frechet_distance(gaussian_of(a), gaussian_of(b));
}

std::vector<double> replicates_of(const FeatureSet& evaluated, const FeatureSet& reference,
                                  const ResamplingOptions& options) {
  if (by_features(reference)) {
    return resampled_distances(
        evaluated.features,
        [&](const at::Tensor& drawn) { return frechet_distance(drawn, reference.features).value; },
        options);
  }
  const Gaussian gaussian = gaussian_of(reference);
  return resampled_distances(
      evaluated.features,
      [&](const at::Tensor& drawn) { return frechet_distance(drawn, gaussian).value; }, options);
}

void require_features(const FeatureSet& set, const std::string& what) {
  if (set.features.defined()) return;
  throw bad_input(set.name, "", "only mean and covariance are known",
                  what + " needs the features or the images themselves");
}

void require_measurable(const FeatureSet& evaluated, const FeatureSet& reference,
                        const SetDistanceOptions& options) {
  require_comparable(evaluated, reference);
  for (const FeatureSet* set : {&evaluated, &reference}) {
    if (set->samples == 1) throw bad_input(set->name, "samples", "1", "at least 2");
    if (options.kernel) require_features(*set, "the kernel distance");
    if (options.precision_recall) require_features(*set, "precision and recall");
  }
  if (options.resampling.replicates > 0) {
    require_features(evaluated, "an interval (--bootstrap 0: without one)");
  }
}

}  // namespace

SetDistance measure_distance(const FeatureSet& evaluated, const FeatureSet& reference,
                             const SetDistanceOptions& options) {
  require_measurable(evaluated, reference, options);
  SetDistance distance;
  distance.name = name_of(evaluated, reference);
  const auto begin = std::chrono::steady_clock::now();
  distance.frechet = frechet_between(evaluated, reference);
  distance.frechet_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (options.kernel) {
    distance.kernel =
        kernel_distance(evaluated.features, reference.features, options.kernel_options);
  }
  if (options.precision_recall) {
    distance.precision_recall =
        precision_recall(reference.features, evaluated.features, options.neighbours);
  }
  if (options.resampling.replicates > 0) {
    distance.replicates = replicates_of(evaluated, reference, options.resampling);
  }
  if (reference.mixture && evaluated.features.defined() && !evaluated.extractor) {
    distance.mixture = mixture_distance(evaluated.features, *reference.mixture);
  }
  return distance;
}

int64_t fewest_samples(int64_t dimension) {
  return 2 * dimension;
}

std::string why_no_gate(const FeatureSet& set) {
  const int64_t fewest = fewest_samples(set.dimension);
  if (set.exact || set.samples >= fewest) return "";
  const std::string found =
      set.samples == 0 ? "N is not known" : fmt::format("N = {}", format_count(set.samples));
  return fmt::format(
      "{}: {}, and with fewer than 2 d = {} samples the distance is mostly the error "
      "of the covariances",
      set.name, found, format_count(fewest));
}

std::string why_not_alike(const FeatureSet& a, const FeatureSet& b) {
  if (a.extractor.has_value() == b.extractor.has_value()) return "";
  const FeatureSet& known = a.extractor ? a : b;
  const FeatureSet& other = a.extractor ? b : a;
  if (other.exact) {
    return fmt::format("{}: of plain values, and {} are features of images", other.name,
                       known.name);
  }
  return fmt::format(
      "{}: nobody says which extractor and resize made it; --resize NAME says so (of {} it is {})",
      other.name, known.name, known.extractor->resize);
}

}  // namespace noisemark::suite
