#pragma once

#include <string>
#include <vector>

#include "reports/compare/sides.h"
#include "reports/quality/quality.h"

namespace noisemark::reports {

/// A distance of the samples that one run drew.
struct RunDistance {
  std::string run_id;
  std::string file;  ///< that says so: "distances/fid.json", below the folder of the run
  DistanceOrigin origin;
  double value = 0;
  std::string noise_sha256;  ///< of the samples' initial noise
  std::string problem;       ///< why it counts as missing; empty: it does not
};

/// From FOLDER/distances/*.json of every run: what `noisemark fid RUN/samples/pictures REFERENCE
/// --json` says, with the kernel distance, where there is one, as a metric of its own ("fid" and
/// "kid" of the Inception network, else "EXTRACTOR_distance" and "EXTRACTOR_kernel_distance"). One
/// counts as missing when the samples were drawn with other weights than the run's, when nobody
/// says with which, and when a set has fewer than 2 d samples. Throws Error (bad input) for a file
/// that is no such thing.
[[nodiscard]] std::vector<RunDistance> read_distances(const Side& side);

/// Gives the runs their distances as metrics.
void attach_distances(const std::vector<RunDistance>& distances, Side& side);

/// What forbids to compare them, a sentence each: origins of one metric that differ, initial noise
/// that differs between runs of one benchmark and seed.
[[nodiscard]] std::vector<std::string> distance_problems(const std::vector<RunDistance>& distances,
                                                         const Side& side);

}  // namespace noisemark::reports
