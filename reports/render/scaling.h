#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/render/table.h"
#include "reports/result/result.h"

/// The gain of a training by its ranks, and the cost of their communication.
namespace noisemark::reports {

/// Medians over the steps after the warm-up, of one rank.
struct RankTimes {
  int64_t rank = 0;
  double step_s = 0;
  double communication_s = 0;  ///< time in which a sum or a gathering was on its way
  double exposed_s = 0;        ///< part of communication_s in which the rank only waited
  double own_s = 0;            ///< step without its exposed communication
};

/// Returns the times of the ranks that measured their communication, in their order.
[[nodiscard]] std::vector<RankTimes> rank_times(const Result& result);

/// Returns the rank whose own work takes longest; null for no ranks.
[[nodiscard]] const RankTimes* slowest_of(const std::vector<RankTimes>& times);
/// Returns the one in the middle by own work, of two the faster; null for no ranks.
[[nodiscard]] const RankTimes* median_of(const std::vector<RankTimes>& times);

/// Says in words which ranks share processors: "2 ranks with 1 thread and 1 loader thread each
/// share 2 processors"; empty where each thread has one of its own, or that is not known.
[[nodiscard]] std::string shared_processors(const Result& result);

/// Returns images/s if no rank ever waited for another: the measured ones times the median step
/// over the slowest rank's own work. It is empty where that was not measured.
[[nodiscard]] std::optional<double> rate_without_exposed(const Result& result);

/// "stages by 1f1b of 8 micro-batches", for an identity with a pipeline.
[[nodiscard]] std::string pipeline_words(const Identity& identity);

/// The bubble of a pipeline: the share of its time in which the mean stage only waits.
struct Bubble {
  double measured = 0;  ///< the mean wait over the longest time of forward and backward passes
  double ideal = 0;     ///< (S - 1) / (M + S - 1) for S equal stages and M micro-batches
};
/// Returns nothing without a pipeline, and where no step was measured.
[[nodiscard]] std::optional<Bubble> bubble_of(const Result& result);

/// Returns for a sweep over ranks: images/s, the efficiency E_N = T_N / (N T_1), and what it would
/// be without the exposed part; for pipelines their bubbles. A row claims no efficiency where its
/// ranks share processors, or where one rank had other threads. It is empty where ranks are no
/// axis.
[[nodiscard]] std::string scaling_table(const Sweep& sweep);

}  // namespace noisemark::reports
