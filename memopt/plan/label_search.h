#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memopt/plan/block_problem.h"
#include "memopt/plan/completion_bound.h"

namespace noisemark::memopt::plan {

/// What a partial selection can be compared with. `cost` bounds have error prices of their own.
struct Bounds {
  std::vector<CompletionBound> cost;     ///< at least one
  std::optional<CompletionBound> error;  ///< of with_error_as_cost(), where the error is limited
};

struct SearchLimits {
  double cutoff = 0;        ///< selections that cost more are not wanted
  size_t max_labels = 0;    ///< kept per block, at least one
  bool or_nothing = false;  ///< rather find nothing than discard labels
};

struct Found {
  std::vector<size_t> chosen;  ///< option positions
  double cost = 0;             ///< infinity when nothing was found
  double discarded = 0;        ///< no selection through a discarded label costs less; infinity when
                               ///< none was
  bool gave_up = false;
};

/// Dynamic program over the blocks with labels (held, cost, error), none of which another one
/// beats or equals. Labels that cannot be completed within the cutoff and the error limit, by the
/// bounds, are dropped; where more than `max_labels` are left, those of the lowest bounds stay.
/// The cheapest selection; ties: fewer held bytes, less error, smaller positions.
[[nodiscard]] Found search_labels(const Problem& problem, const Bounds& bounds,
                                  const SearchLimits& limits);

}  // namespace noisemark::memopt::plan
