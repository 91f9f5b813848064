#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/result/metrics.h"
#include "reports/result/result.h"
#include "reports/seeds/study.h"

/// The measures of a run's quality that can be judged.
namespace noisemark::reports {

struct Measure {
  std::string name;   ///< metric of the result, or "loss"
  double margin = 0;  ///< default; 0: it has none and must be given
  DifferenceScale scale = DifferenceScale::kLogRatio;
  int64_t fewest_seeds = StudyRule().fewest_seeds;  ///< with fewer, nothing is claimed
};

/// The metrics whose row in metric_table() says how they are judged over seeds.
[[nodiscard]] const std::vector<Measure>& known_measures();

/// The known one of that name; else any other metric, judged without a margin of its own, and by
/// its ratio unless it may be zero.
[[nodiscard]] Measure measure_named(const std::string& name);

/// Returns the names of those that are always shown beside the gates, judged or not.
[[nodiscard]] std::vector<std::string> described_measures();

/// A figure of one run.
struct Observation {
  std::optional<double> value;
  std::string missing_reason;  ///< why value is empty
  std::string unit;
  Direction direction = Direction::kLower;
};

/// The metric of that name. Time and samples to quality are those of the target itself, on the line
/// between the evaluations before and after it in the logarithm of the loss: to be judged, the
/// first evaluation that sees it reached is too coarse, being late by up to the steps between two.
[[nodiscard]] Observation observe(const Result& result, const std::string& measure);
/// The unweighted loss at one timestep of the last evaluation.
[[nodiscard]] Observation observe_loss_at(const Result& result, int64_t timestep);
/// Timesteps of the last evaluation; empty without one.
[[nodiscard]] std::vector<int64_t> evaluated_timesteps(const Result& result);

/// The margin that a run's definition sets for a measure, by the key NAME_margin of its section
/// [quality]; empty where it sets none.
[[nodiscard]] std::optional<double> margin_in_definition(const Result& result,
                                                         const std::string& measure);

/// Returns whether the training left the finite numbers.
[[nodiscard]] bool is_not_finite(const Result& result);
/// Returns whether its mode ended a pass without a plan, and so may have kept everything.
[[nodiscard]] bool has_no_plan(const Result& result);
/// Returns whether both trained to the same bits: weights, and their averages where there are any.
[[nodiscard]] bool same_weights(const Result& a, const Result& b);

}  // namespace noisemark::reports
