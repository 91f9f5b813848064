#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suite/quality/distance/draws.h"
#include "suite/quality/distance/frechet.h"
#include "suite/quality/distance/measures.h"
#include "suite/quality/feature_set.h"

namespace noisemark::suite {

struct SetDistanceOptions {
  bool kernel = false;
  KernelDistanceOptions kernel_options;
  bool precision_recall = false;
  int64_t neighbours = 3;
  ResamplingOptions resampling;  ///< resampling of the evaluated set
};

/// The distance of an evaluated set from a reference.
struct SetDistance {
  std::string name;  ///< "FID" only where the extractors of both sets say so
  FrechetDistance frechet;
  double frechet_s = 0;  ///< wall time of the Fréchet distance alone, moments given
  std::optional<KernelDistance> kernel;
  std::optional<PrecisionRecall> precision_recall;
  /// The Fréchet distance of the evaluated features drawn again, the reference as it is: it is part
  /// of the question, and often its moments are all that is known.
  std::vector<double> replicates;
  std::optional<MixtureDistance> mixture;  ///< distance of plain values from the exact mixture
};

/// Throws Error: exit code 2 when the sets have different numbers of features, gray images are
/// compared with coloured ones, or features are needed where only moments are known, exit code 3
/// when both extractors are known and differ.
[[nodiscard]] SetDistance measure_distance(const FeatureSet& evaluated, const FeatureSet& reference,
                                           const SetDistanceOptions& options = {});

/// The fewest samples that a gate may be decided with: below 2 d the distance is mostly the error
/// of the covariances, which differs between models (Chong & Forsyth 2020).
[[nodiscard]] int64_t fewest_samples(int64_t dimension);

/// Says why no gate may be decided with this set; empty: it may.
[[nodiscard]] std::string why_no_gate(const FeatureSet& set);

/// Says why nobody can tell whether both sets were made alike: the extractor of one alone is known,
/// and even the resize moves FID by more than models differ. Such a distance has no extractor's
/// name and decides no gate. It is empty where both are known, or neither is claimed to be of any.
[[nodiscard]] std::string why_not_alike(const FeatureSet& a, const FeatureSet& b);

}  // namespace noisemark::suite
