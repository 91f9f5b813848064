#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/compare/sides.h"

namespace noisemark::reports::test {

/// Changes a run of a side; the second argument is its number.
using Change = std::function<void(Result&, size_t)>;

/// Runs of one cell, one seed and one machine, made one after the other, whose images/s are
/// `rates`. Everything else is the same in all of them.
[[nodiscard]] Side side(const std::string& name, const std::vector<double>& rates,
                        const Change& change = {});

/// The same runs made earlier, none of them in turns with others: what a stored baseline looks
/// like.
[[nodiscard]] Side stored(Side side);

/// Rates around `centre`, spread by about 0.3 %, the same each time.
[[nodiscard]] std::vector<double> rates_around(double centre, size_t count);

/// The metric, which must exist.
[[nodiscard]] Metric& metric(Result& result, const std::string& name);

}  // namespace noisemark::reports::test
