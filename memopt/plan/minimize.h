#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "memopt/plan/block_problem.h"

namespace noisemark::memopt::plan {

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
