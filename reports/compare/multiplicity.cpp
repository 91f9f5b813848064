#include "reports/compare/multiplicity.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace noisemark::reports {
namespace {

std::vector<size_t> ascending(std::span<const double> p) {
  for (const double value : p) {
    if (!(value >= 0 && value <= 1)) throw std::logic_error("multiplicity: p outside [0, 1]");
  }
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  return order;
}

}  // namespace

std::vector<double> holm(std::span<const double> p) {
  const std::vector<size_t> order = ascending(p);
  std::vector<double> adjusted(p.size());
  double most = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const auto left = static_cast<double>(order.size() - rank);
    most = std::max(most, std::min(1.0, left * p[order[rank]]));
    adjusted[order[rank]] = most;
  }
  return adjusted;
}

std::vector<double> benjamini_hochberg(std::span<const double> p) {
  const std::vector<size_t> order = ascending(p);
  std::vector<double> adjusted(p.size());
  const auto all = static_cast<double>(p.size());
  double least = 1;
  for (size_t rank = order.size(); rank-- > 0;) {
    least = std::min(least, p[order[rank]] * all / static_cast<double>(rank + 1));
    adjusted[order[rank]] = least;
  }
  return adjusted;
}

}  // namespace noisemark::reports
