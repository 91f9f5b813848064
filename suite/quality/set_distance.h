#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "suite/quality/distance/frechet.h"
#include "suite/quality/distance/kernel_distance.h"
#include "suite/quality/distance/precision_recall.h"
#include "suite/quality/feature_set.h"

namespace noisemark::suite {

struct SetDistanceOptions {
  bool kernel = false;
  KernelDistanceOptions kernel_options;
  bool precision_recall = false;
  int64_t neighbours = 3;
};

/// How far an evaluated set is from a reference.
struct SetDistance {
  std::string name;  ///< "FID" only where the extractor says so
  FrechetDistance frechet;
  double frechet_s = 0;  ///< wall time of the Fréchet distance alone, moments given
  std::optional<KernelDistance> kernel;
  std::optional<PrecisionRecall> precision_recall;
};

/// Throws Error: exit code 2 when the sets have different numbers of features, gray pictures are
/// compared with coloured ones, or features are needed where only moments are known, exit code 3
/// when both extractors are known and differ.
[[nodiscard]] SetDistance measure_distance(const FeatureSet& evaluated, const FeatureSet& reference,
                                           const SetDistanceOptions& options = {});

/// The fewest samples that a gate may be decided with: below 2 d the distance is mostly the error
/// of the covariances, which differs between models (Chong & Forsyth 2020).
[[nodiscard]] int64_t fewest_samples(int64_t dimension);

/// Why no gate may be decided with this set; empty: it may.
[[nodiscard]] std::string why_no_gate(const FeatureSet& set);

}  // namespace noisemark::suite
