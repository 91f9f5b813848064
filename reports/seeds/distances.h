#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/compare/sides.h"
#include "reports/result/result.h"
#include "reports/seeds/study.h"

namespace noisemark::reports {

/// A distance of the samples that one run drew.
struct RunDistance {
  std::string run_id;
  std::string file;  ///< file that holds it: "distances/fid.json", below the run's folder
  DistanceOrigin origin;
  Direction direction = Direction::kLower;
  std::optional<double> value;  ///< is empty where it is no finite number
  std::optional<double> standard_error;
  std::optional<Interval> interval;  ///< interval that drawing the features again gives
  std::string noise_sha256;          ///< SHA-256 of the samples' initial noise
  std::string problem;               ///< why it counts as missing; empty: it does not
};

/// Reads FOLDER/distances/*.json of every run: what `noisemark fid RUN/samples/pictures REFERENCE
/// --json` says. Metrics are "fid", "kid" and "inception_score" of the Inception network of that
/// day; "mixture_distance" of raw samples to gmm16:exact; else, with the extractor's name before
/// it, "_distance", "_kernel_distance" and "_class_score"; "_precision" and "_recall" of any.
///
/// One counts as missing when
///
/// - nobody says which weights drew the samples, or they were others than the run's;
/// - the two sets are of different extractors or resizes, or that is not known of one of them, and
///   the user did not say it (`fid --resize`); an exact distribution needs none, beside plain
///   values;
/// - it is a Fréchet distance and a set has fewer than 2 d samples;
/// - it is a kernel distance without a standard error, of subsets of more than half of a set;
/// - the run's definition locks another sampler, number of samples, seed, extractor, resize or
///   reference.
///
/// Keys that came later may be absent from a file: what they would say is then not known. What
/// cannot be read goes to `side.lost`. Throws Error (bad input) for a file that is no such thing.
[[nodiscard]] std::vector<RunDistance> read_distances(Side& side);

/// Gives the runs their distances as metrics.
void attach_distances(const std::vector<RunDistance>& distances, Side& side);

/// Returns what was measured of every run, in the order of benchmark, variant, seed and metric.
[[nodiscard]] std::vector<DistanceValue> distance_values(const std::vector<RunDistance>& distances,
                                                         const Side& side);

/// Says what forbids to compare them, a sentence each: origins of one metric that differ, initial
/// noise that differs between runs of one benchmark and seed.
[[nodiscard]] std::vector<std::string> distance_problems(const std::vector<RunDistance>& distances,
                                                         const Side& side);

}  // namespace noisemark::reports
