#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "reports/quality/range_gate.h"
#include "reports/result.h"
#include "suite/quality/distance/inception_score.h"
#include "suite/quality/feature_set.h"
#include "suite/quality/set_distance.h"
#include "suite/sampling/origin.h"

namespace noisemark::suite {

/// --min and --max of `noisemark fid`, and what was found.
struct FidGate {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  reports::RangeVerdict verdict;
};

/// All that `noisemark fid` says of two sets.
struct FidOutcome {
  FeatureSet evaluated;
  FeatureSet reference;
  std::optional<SamplingOrigin> evaluated_origin;
  std::optional<SamplingOrigin> reference_origin;
  SetDistanceOptions options;
  std::string draws;      ///< of the kernel distance: "counter" or "numpy"
  int64_t draw_seed = 0;  ///< likewise
  SetDistance distance;
  double confidence = 0;                      ///< of the interval
  std::optional<reports::Interval> interval;  ///< of the Fréchet distance of so many samples
  std::optional<InceptionScore> score;        ///< of the evaluated set
  std::optional<FidGate> gate;
};

/// As Markdown.
[[nodiscard]] std::string fid_text(const FidOutcome& outcome);
/// "noisemark.distance" 1: keys are added, none is changed.
[[nodiscard]] std::string fid_json(const FidOutcome& outcome);

/// N as people read it: "exact", "not known" or a number.
[[nodiscard]] std::string count_of(const FeatureSet& set);

/// Why this distance decides no gate; empty: it may.
[[nodiscard]] std::string why_no_gate(const FeatureSet& set, const FeatureSet& other);

}  // namespace noisemark::suite
