#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"
#include "reports/seeds/distances.h"
#include "reports/seeds/study.h"

/// This file makes variants beside their references from results.
namespace noisemark::reports {

/// The runs that are judged, with their distances as metrics, and where those come from.
struct QualitySide {
  Side side;
  std::vector<RunDistance> distances;
  std::vector<std::string> sheets;  ///< images of samples, as a page links to them
  /// Runs of benchmarks that their suite does not train over seeds: of their modes it is judged
  /// what is known of every step, tiers 0 and 1.
  Side by_steps = {};
};

/// Reads folders of results. In the folder of a suite that judges some benchmarks only their runs
/// count: the others are judged by their steps, and named among left_out. Throws Error (bad input)
/// as read_runs() and read_distances() do. `page`: the folder that the links lead from; empty: the
/// one that was given, or the current folder where several were.
[[nodiscard]] QualitySide read_quality_side(const std::vector<std::string>& paths,
                                            const std::filesystem::path& page = {});

/// A variant, the one that it is judged against, and their runs by seed.
struct Pairing {
  std::string benchmark;  ///< "gmm16-ho@cpu", and the kind of device or framework if unusual
  std::string variant;    ///< "echo-plain-fp32"
  std::string reference;  ///< is empty where there is none
  Cell cell;              ///< pairs of the reference's run and the variant's, by seed
  std::vector<std::string> unpaired;  ///< seeds that one side lacks
};

/// The runs of every variant, references among them, by name and seed. Throws Error (bad input)
/// for two runs of one seed: they are no two replications.
[[nodiscard]] std::vector<VariantRuns> variants_of(const Side& side);

/// Pairs each variant with what it is judged against: mode "none" of the same baseline and
/// precision; and of mode "none" itself, where it is not the plain one in fp32, that. Ranks that
/// round gradients are judged against those that do not, of the same mode. Peers are
/// judged among themselves. A variant that is nothing but a reference has no pairing. They are in
/// the order of the names. The side must outlive the pairs. Throws likewise.
[[nodiscard]] std::vector<Pairing> pairings_of(const Side& side);

/// The runs of one variant, by seed. Throws likewise.
[[nodiscard]] std::vector<const NamedResult*> runs_of(const Side& side, const VariantRuns& variant);

/// "mode-baseline-precision", as a suite names the folder; "-bf16-reduced" behind it where ranks
/// round gradients.
[[nodiscard]] std::string variant_name(const Identity& identity);
/// "gmm16-ho@cpu"; ", cuda" behind it where that device is not the scale's own, and the framework
/// unless it is noisemark.
[[nodiscard]] std::string workload_name(const Identity& identity);

}  // namespace noisemark::reports
