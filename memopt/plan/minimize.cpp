#include "memopt/plan/minimize.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "memopt/plan/completion_bound.h"
#include "memopt/plan/label_search.h"

namespace noisemark::memopt::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kCoarsePrices = 48;
constexpr size_t kSearchPrices = 32;
constexpr size_t kBytePrices = 8;
constexpr double kRankTolerance = 1;
constexpr size_t kFinePrices = 16;
constexpr size_t kFirstWidth = 4;
constexpr size_t kNarrowWidth = 64;
constexpr double kClose = 0.05;  // to the bound: not worth a wide search that is not exact either

std::vector<double> coarse_prices(const Problem& problem, double error_price, size_t count) {
  std::vector<double> prices = spread(byte_prices(problem, error_price), count);
  prices.insert(prices.begin(), 0);
  return prices;
}

CompletionBound coarse_bound(const Problem& problem, double error_price) {
  return {problem, coarse_prices(problem, error_price, kCoarsePrices), error_price};
}

double least_total(const Problem& problem, const CompletionBound& bound) {
  const double total = bound(0, 0);
  if (bound.error_price() == 0) return total;
  return total - bound.error_price() * problem.error_limit;
}

std::vector<double> likely_error_prices(const Problem& problem) {
  std::vector<double> prices;
  for (const double byte_price : spread(byte_prices(problem, 0), kBytePrices)) {
    const std::vector<double> more = error_prices(problem, byte_price);
    prices.insert(prices.end(), more.begin(), more.end());
  }
  std::sort(prices.begin(), prices.end());
  return prices;
}

/// Between the values of an ascending list.
double interpolated(const std::vector<double>& ascending, double rank) {
  const size_t below = std::min(static_cast<size_t>(rank), ascending.size() - 2);
  const double part = rank - static_cast<double>(below);
  return ascending[below] + part * (ascending[below + 1] - ascending[below]);
}

/// The error price with the highest bound, which is concave in it: golden-section search (Kiefer
/// 1953) over the ranks of the likely prices.
double best_error_price(const Problem& problem) {
  const std::vector<double> likely = likely_error_prices(problem);
  if (likely.size() < 2) return likely.empty() ? 0 : likely.front();
  const double middle = interpolated(likely, static_cast<double>(likely.size() - 1) / 2);
  const std::vector<double> prices = coarse_prices(problem, middle, kSearchPrices);
  const auto total = [&](double rank) {
    return least_total(problem, CompletionBound(problem, prices, interpolated(likely, rank)));
  };
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double low = 0;
  auto high = static_cast<double>(likely.size() - 1);
  double left = high - golden * (high - low);
  double right = low + golden * (high - low);
  double at_left = total(left);
  double at_right = total(right);
  while (high - low > kRankTolerance) {
    if (at_left < at_right) {
      low = std::exchange(left, right);
      at_left = at_right;
      right = low + golden * (high - low);
      at_right = total(right);
    } else {
      high = std::exchange(right, left);
      at_right = at_left;
      left = high - golden * (high - low);
      at_left = total(left);
    }
  }
  return interpolated(likely, (low + high) / 2);
}

/// Adds to a bound's prices finer ones on both sides of each that was used along a selection.
CompletionBound refined(const Problem& problem, const CompletionBound& bound,
                        const std::vector<size_t>& chosen) {
  const std::vector<double>& coarse = bound.prices();
  const std::vector<double> all = byte_prices(problem, bound.error_price());
  std::vector<double> prices = coarse;
  int64_t held = 0;
  for (size_t block = 0; block < problem.blocks.size(); ++block) {
    const auto used = std::lower_bound(coarse.begin(), coarse.end(), bound.price(block, held));
    const double low = used == coarse.begin() ? 0 : *(used - 1);
    const double high = used + 1 == coarse.end() ? *used : *(used + 1);
    const std::vector<double> near(std::lower_bound(all.begin(), all.end(), low),
                                   std::upper_bound(all.begin(), all.end(), high));
    const std::vector<double> fine = spread(near, kFinePrices);
    prices.insert(prices.end(), fine.begin(), fine.end());
    held += problem.blocks[block][chosen[block]].held_bytes;
  }
  std::sort(prices.begin(), prices.end());
  prices.erase(std::unique(prices.begin(), prices.end()), prices.end());
  return {problem, std::move(prices), bound.error_price()};
}

Bounds coarse_bounds(const Problem& problem) {
  Bounds bounds;
  bounds.cost.push_back(coarse_bound(problem, 0));
  if (!problem.limits_error()) return bounds;
  bounds.error = coarse_bound(problem.with_error_as_cost(), 0);
  const double error_price = best_error_price(problem);
  if (error_price > 0) bounds.cost.push_back(coarse_bound(problem, error_price));
  return bounds;
}

double cost_of(const Problem& problem, const std::vector<size_t>& chosen) {
  double cost = 0;
  for (size_t i = 0; i < chosen.size(); ++i) cost += problem.blocks[i][chosen[i]].cost;
  return cost;
}

double least_total(const Problem& problem, const Bounds& bounds) {
  double least = 0;
  for (const CompletionBound& bound : bounds.cost) {
    least = std::max(least, least_total(problem, bound));
  }
  return least;
}

void take_better(Minimum& minimum, Found found) {
  if (found.cost > minimum.cost) return;
  minimum.cost = found.cost;
  minimum.chosen = std::move(found.chosen);
}

}  // namespace

Minimum minimize(const Problem& problem, const Effort& effort, std::vector<size_t> incumbent) {
  Minimum minimum;
  if (incumbent.size() == problem.blocks.size() && !incumbent.empty()) {
    minimum.cost = cost_of(problem, incumbent);
    minimum.chosen = std::move(incumbent);
  }
  Bounds bounds = coarse_bounds(problem);
  take_better(minimum, search_labels(problem, bounds,
                                     {minimum.cost, std::min(kFirstWidth, effort.max_labels)}));
  if (minimum.cost < kInfinity) {
    for (CompletionBound& bound : bounds.cost) bound = refined(problem, bound, minimum.chosen);
  }
  minimum.lower_bound = least_total(problem, bounds);
  for (const size_t labels : {std::min(kNarrowWidth, effort.max_labels), effort.max_labels}) {
    if (effort.enough && minimum.cost <= *effort.enough) break;
    if (effort.enough && minimum.lower_bound > *effort.enough) break;
    const bool close = minimum.cost - minimum.lower_bound <= kClose * minimum.lower_bound;
    Found found =
        search_labels(problem, bounds, {minimum.cost, labels, close && labels > kNarrowWidth});
    if (found.gave_up) break;
    const double discarded = found.discarded;
    take_better(minimum, std::move(found));
    minimum.lower_bound = std::max(minimum.lower_bound, std::min(minimum.cost, discarded));
    if (discarded == kInfinity || labels == effort.max_labels) break;
  }
  return minimum;
}

std::vector<size_t> least_held(const Problem& problem) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < problem.blocks.size(); ++i) {
    const auto least = std::min_element(
        problem.blocks[i].begin(), problem.blocks[i].end(),
        [](const Option& a, const Option& b) { return a.held_bytes < b.held_bytes; });
    chosen.push_back(static_cast<size_t>(least - problem.blocks[i].begin()));
  }
  return chosen;
}

Minimum minimize_error(const Problem& problem) {
  return minimize(problem.with_error_as_cost(),
                  {std::numeric_limits<size_t>::max(), problem.error_limit});
}

}  // namespace noisemark::memopt::plan
