#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/compare/sides.h"

/// Runs of several seeds under several modes, of which nothing is real but the shape.
namespace noisemark::reports::test {

/// Changes a run; the second argument is its seed.
using ChangeSeed = std::function<void(Result&, uint64_t)>;

/// Runs of seeds 0, 1, ... under `mode` whose validation loss is `losses`: the last evaluation, its
/// timesteps and the metrics follow it. Weights differ from run to run.
[[nodiscard]] std::vector<NamedResult> seeds_of(const std::string& mode,
                                                const std::vector<double>& losses,
                                                const ChangeSeed& change = {});

/// One side of the runs of several modes.
[[nodiscard]] Side together(const std::vector<std::vector<NamedResult>>& modes);

/// Losses around 0.1, spread by about 2 %, as seeds are: the same each time.
[[nodiscard]] std::vector<double> losses_of_none(size_t count);

/// `losses` worse by `frac`, each besides by its share of `spread`, which adds up to no shift.
[[nodiscard]] std::vector<double> worse_by(double frac, double spread,
                                           const std::vector<double>& losses);

}  // namespace noisemark::reports::test
