#include "reports/compare/signed_rank.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace noisemark::reports {
namespace {

constexpr size_t kMostExact = 50;  // 2^50 signs are counted in doubles without rounding

/// Ranks of the magnitudes, doubled, so that mean ranks of ties are integers.
struct Ranks {
  std::vector<int64_t> doubled;  ///< ascending
  int64_t positive = 0;          ///< sum of those of positive differences
  double tie_term = 0;           ///< sum of t^3 - t over groups of t equal magnitudes
};

std::vector<double> without_zeros(std::span<const double> differences) {
  std::vector<double> values;
  for (const double value : differences) {
    if (!std::isfinite(value)) throw std::logic_error("signed rank: a value is not finite");
    if (value != 0) values.push_back(value);
  }
  return values;
}

Ranks rank(std::vector<double> values) {
  std::sort(values.begin(), values.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); });
  Ranks ranks;
  for (size_t begin = 0; begin < values.size();) {
    size_t end = begin;
    while (end < values.size() && std::abs(values[end]) == std::abs(values[begin])) ++end;
    const auto doubled = static_cast<int64_t>(begin + 1 + end);
    for (size_t i = begin; i < end; ++i) {
      ranks.doubled.push_back(doubled);
      if (values[i] > 0) ranks.positive += doubled;
    }
    const auto ties = static_cast<double>(end - begin);
    ranks.tie_term += ties * ties * ties - ties;
    begin = end;
  }
  return ranks;
}

struct Tails {
  double below = 1;  ///< probability of the statistic or less
  double above = 1;  ///< of the statistic or more
};

Tails counted(const Ranks& ranks) {
  const auto sum = std::accumulate(ranks.doubled.begin(), ranks.doubled.end(), int64_t{0});
  std::vector<double> ways(static_cast<size_t>(sum) + 1, 0);
  ways[0] = 1;
  size_t reached = 0;
  for (const int64_t rank : ranks.doubled) {
    const auto step = static_cast<size_t>(rank);
    for (size_t s = reached + 1; s-- > 0;) ways[s + step] += ways[s];
    reached += step;
  }
  const auto at = ways.begin() + ranks.positive;
  const double all = std::exp2(static_cast<double>(ranks.doubled.size()));
  return {std::accumulate(ways.begin(), at + 1, 0.0) / all,
          std::accumulate(at, ways.end(), 0.0) / all};
}

Tails approximated(const Ranks& ranks) {
  const auto n = static_cast<double>(ranks.doubled.size());
  const double mean = n * (n + 1) / 4;
  const double deviation = std::sqrt((n * (n + 1) * (2 * n + 1) - ranks.tie_term / 2) / 24);
  const double distance = static_cast<double>(ranks.positive) / 2 - mean;
  const boost::math::normal normal;
  return {boost::math::cdf(normal, (distance + 0.5) / deviation),
          boost::math::cdf(boost::math::complement(normal, (distance - 0.5) / deviation))};
}

}  // namespace

SignedRank wilcoxon_signed_rank(std::span<const double> differences, Alternative alternative) {
  const Ranks ranks = rank(without_zeros(differences));
  SignedRank result;
  result.n = static_cast<int64_t>(ranks.doubled.size());
  result.statistic = static_cast<double>(ranks.positive) / 2;
  result.exact = ranks.doubled.size() <= kMostExact;
  if (result.n == 0) return result;
  const Tails tails = result.exact ? counted(ranks) : approximated(ranks);
  switch (alternative) {
    case Alternative::kLess:
      result.p = tails.below;
      break;
    case Alternative::kGreater:
      result.p = tails.above;
      break;
    case Alternative::kTwoSided:
      result.p = std::min(1.0, 2 * std::min(tails.below, tails.above));
  }
  return result;
}

}  // namespace noisemark::reports
