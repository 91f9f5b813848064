#include "memopt/plan/block_program.h"

#include <algorithm>
#include <utility>

#include "memopt/plan/block_problem.h"
#include "memopt/plan/minimize.h"

namespace noisemark::memopt::plan {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

Solution solution_of(const std::vector<Block>& blocks, std::vector<size_t> chosen) {
  Solution solution;
  solution.chosen = std::move(chosen);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Choice& c = blocks[i][solution.chosen[i]];
    solution.peak_bytes = std::max(solution.peak_bytes, solution.held_bytes + c.window_bytes);
    solution.held_bytes += c.held_bytes;
    solution.cost_ns += c.cost_ns;
    solution.error_squared += c.error_squared;
  }
  return solution;
}

/// Positions among a problem's options as indices of choices.
std::vector<size_t> indices(const Problem& problem, std::vector<size_t> chosen) {
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = problem.blocks[i][chosen[i]].index;
  return chosen;
}

std::optional<Solution> solve_reduced(const Reduced& reduced, const Limits& limits,
                                      size_t max_labels) {
  const std::optional<Problem> problem = reduced.within(limits);
  if (!problem) return std::nullopt;
  std::vector<size_t> incumbent;
  if (problem->limits_error()) {
    Minimum error = minimize_error(*problem);
    if (error.cost > problem->error_limit) return std::nullopt;
    incumbent = std::move(error.chosen);
  }
  Minimum minimum = minimize(*problem, {std::max<size_t>(max_labels, 1)}, std::move(incumbent));
  Solution solution = solution_of(reduced.blocks(), indices(*problem, std::move(minimum.chosen)));
  solution.lower_bound_ns = minimum.lower_bound;
  return solution;
}

/// Some selection within the limits, whatever it costs.
std::optional<Solution> any_within(const Reduced& reduced, const Limits& limits) {
  const std::optional<Problem> problem = reduced.within(limits);
  if (!problem) return std::nullopt;
  if (!problem->limits_error()) {
    return solution_of(reduced.blocks(), indices(*problem, least_held(*problem)));
  }
  Minimum error = minimize_error(*problem);
  if (error.cost > problem->error_limit) return std::nullopt;
  return solution_of(reduced.blocks(), indices(*problem, std::move(error.chosen)));
}

/// The smallest value of one byte limit that leaves a selection within the limits.
int64_t smallest(const Reduced& reduced, Limits limits, int64_t Limits::*limit,
                 int64_t Solution::*reached) {
  limits.*limit = kNever;
  std::optional<Solution> within = any_within(reduced, limits);
  if (!within) return kNever;
  int64_t enough = (*within).*reached;
  int64_t too_little = -1;
  while (enough - too_little > 1) {
    limits.*limit = too_little + (enough - too_little) / 2;
    within = any_within(reduced, limits);
    if (within) enough = (*within).*reached;
    if (!within) too_little = limits.*limit;
  }
  return enough;
}

int64_t smallest_peak_of(const Reduced& reduced, const Limits& limits) {
  return smallest(reduced, limits, &Limits::peak_bytes, &Solution::peak_bytes);
}

/// Every point by falling peak, or one more than `most` of them.
std::vector<Solution> first_points(const Reduced& reduced, Limits limits, size_t most) {
  std::vector<Solution> points;
  while (points.size() <= most) {
    std::optional<Solution> next = solve_reduced(reduced, limits, kDefaultLabels);
    if (!next) break;
    limits.peak_bytes = next->peak_bytes - 1;
    while (!points.empty() && points.back().cost_ns >= next->cost_ns) points.pop_back();
    points.push_back(std::move(*next));
  }
  return points;
}

std::vector<Solution> spread_points(const Reduced& reduced, Limits limits, int64_t highest,
                                    size_t count) {
  const int64_t range = highest - smallest_peak_of(reduced, limits);
  const auto steps = static_cast<int64_t>(count - 1);
  std::vector<Solution> points;
  for (int64_t i = 0; i <= steps; ++i) {
    limits.peak_bytes = highest - (range / steps * i + range % steps * i / steps);
    std::optional<Solution> next = solve_reduced(reduced, limits, kDefaultLabels);
    while (!points.empty() && points.back().cost_ns >= next->cost_ns) points.pop_back();
    points.push_back(std::move(*next));
  }
  return points;
}

}  // namespace

double Solution::gap() const {
  return cost_ns == lower_bound_ns ? 0 : (cost_ns - lower_bound_ns) / lower_bound_ns;
}

std::optional<Solution> solve(const std::vector<Block>& blocks, const Limits& limits,
                              size_t max_labels) {
  return solve_reduced(Reduced(blocks), limits, max_labels);
}

int64_t smallest_peak(const std::vector<Block>& blocks, const Limits& limits) {
  return smallest_peak_of(Reduced(blocks), limits);
}

int64_t smallest_held(const std::vector<Block>& blocks, const Limits& limits) {
  return smallest(Reduced(blocks), limits, &Limits::held_bytes, &Solution::held_bytes);
}

std::vector<Solution> pareto_curve(const std::vector<Block>& blocks, const Limits& limits,
                                   size_t max_points) {
  const Reduced reduced(blocks);
  const size_t most = std::max<size_t>(max_points, 2);
  std::vector<Solution> points = first_points(reduced, limits, most);
  if (points.size() <= most) return points;
  return spread_points(reduced, limits, points.front().peak_bytes, most);
}

Block without_dominated(const Block& block) {
  Block kept;
  for (const size_t index : undominated(block)) kept.push_back(block[index]);
  return kept;
}

}  // namespace noisemark::memopt::plan
