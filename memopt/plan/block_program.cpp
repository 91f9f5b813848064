#include "memopt/plan/block_program.h"

#include <algorithm>
#include <utility>

#include "memopt/plan/block_problem.h"
#include "memopt/plan/block_search.h"

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
  return solution_of(reduced.blocks(), indices(*problem, std::move(minimum.chosen)));
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

}  // namespace

std::optional<Solution> solve(const std::vector<Block>& blocks, const Limits& limits,
                              size_t max_labels) {
  return solve_reduced(Reduced(blocks), limits, max_labels);
}

int64_t smallest_peak(const std::vector<Block>& blocks, const Limits& limits) {
  const Reduced reduced(blocks);
  Limits tried = limits;
  tried.peak_bytes = kNever;
  std::optional<Solution> within = any_within(reduced, tried);
  if (!within) return kNever;
  int64_t enough = within->peak_bytes;
  int64_t too_little = -1;
  while (enough - too_little > 1) {
    tried.peak_bytes = too_little + (enough - too_little) / 2;
    within = any_within(reduced, tried);
    if (within) enough = within->peak_bytes;
    if (!within) too_little = tried.peak_bytes;
  }
  return enough;
}

}  // namespace noisemark::memopt::plan
