#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/result.h"

/// What a distance between sets of pictures is made of.
namespace noisemark::reports {

/// Which samples a kernel distance looked at.
struct KernelOrigin {
  int64_t subsets = 0;
  int64_t subset_size = 0;
  std::string draws;             ///< "counter" or "numpy"; empty: nobody says
  std::optional<uint64_t> seed;  ///< of those draws; empty likewise

  bool operator==(const KernelOrigin&) const = default;
};

/// What decides what a distance is: equal in all runs, or they are not comparable.
struct DistanceOrigin {
  std::string metric;     ///< "fid", "kid", "cifarnet_distance"
  std::string name;       ///< as its extractor calls it: "FID"
  std::string extractor;  ///< empty: of the values themselves
  std::string checksum;   ///< of the extractor's weights
  std::string resize;
  bool resize_asserted = false;  ///< of one side it is the user's word and not its maker's
  int64_t dimension = 0;
  int64_t samples = 0;
  std::optional<KernelOrigin> kernel = std::nullopt;  ///< of a kernel distance
  std::string definition;  ///< of the sampling: "ho-cifar10@cpu 0123456789ab"; empty: nobody says
  std::string sampler;     ///< "ddim, 50 steps, eta 0"
  std::string weights;     ///< "model" or "ema"
  std::string noise;       ///< "the run's seed", "seed 7", "a file 0123456789ab, seed 7"
  std::string precision;   ///< of the sampling: "the run's", "bf16"; empty: nobody says
  std::string reference;
  std::optional<int64_t> reference_samples;  ///< empty: a distribution itself, or not known
  std::string reference_sha256;              ///< of its moments; empty: not known

  bool operator==(const DistanceOrigin&) const = default;
};

/// A distance of one run's samples.
struct DistanceValue {
  std::string benchmark;  ///< "gmm16-ho@cpu"
  std::string variant;    ///< "echo+dpr8-plain-fp32"
  uint64_t seed = 0;
  std::string metric;
  int64_t samples = 0;
  std::optional<double> value;
  std::optional<double> standard_error;
  std::optional<Interval> interval;  ///< of other samples of these weights
  std::string problem;               ///< why it counts as missing; empty: it does not
};

}  // namespace noisemark::reports
