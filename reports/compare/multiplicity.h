#pragma once

#include <span>
#include <vector>

/// Adjusted p-values of several tests at once, in the order given: compare each with alpha. Both
/// throw std::logic_error for a p outside [0, 1].
namespace noisemark::reports {

/// Holm (1979): the chance of any false alarm among them stays at alpha, whatever their dependence.
[[nodiscard]] std::vector<double> holm(std::span<const double> p);

/// Benjamini and Hochberg (1995): the expected share of false alarms among the alarms stays at
/// alpha, for tests that are independent or positively dependent.
[[nodiscard]] std::vector<double> benjamini_hochberg(std::span<const double> p);

}  // namespace noisemark::reports
