#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "memopt/plan/block_problem.h"

namespace noisemark::memopt::plan {

/// The bounds that a partial selection is compared with. `cost` bounds have error prices of their
/// own.
struct Bounds {
  std::vector<CompletionBound> cost;     ///< bounds, at least one
  std::optional<CompletionBound> error;  ///< bound of with_error_as_cost(); empty: no error limit
};

struct SearchLimits {
  double cutoff = 0;        ///< selections that cost more are not wanted
  size_t max_labels = 0;    ///< number kept for each block, at least one
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

struct Minimum {
  std::vector<size_t> chosen;                                    ///< option positions
  double cost = std::numeric_limits<double>::infinity();         ///< infinity: nothing found
  double lower_bound = std::numeric_limits<double>::infinity();  ///< no selection costs less
};

struct Effort {
  size_t max_labels = 0;
  std::optional<double> enough = {};  ///< any selection of at most this cost will do
};

/// The cheapest selection: dual prices, a narrow search for an incumbent, prices refined along its
/// path, then a narrow and a wide search until one discards nothing, which is then exact. The wide
/// one is cut short where it would discard something and the incumbent is close to the bound.
/// `incumbent` is a selection within the limits, empty when none is known.
[[nodiscard]] Minimum minimize(const Problem& problem, const Effort& effort,
                               std::vector<size_t> incumbent = {});

/// Whatever holds the least, where the error is not limited.
[[nodiscard]] std::vector<size_t> least_held(const Problem& problem);

/// The selection of the least error; an exact search however long it takes, unless it finds one
/// within the limit or shows that there is none.
[[nodiscard]] Minimum minimize_error(const Problem& problem);

}  // namespace noisemark::memopt::plan
