#include "reports/compare/inference.h"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/tools/toms748_solve.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reports/base/statistics.h"

namespace noisemark::reports {
namespace {

void check(std::span<const double> differences) {
  if (differences.empty()) throw std::logic_error("paired estimate: no differences");
  for (const double value : differences) {
    if (!std::isfinite(value)) throw std::logic_error("paired estimate: a value is not finite");
  }
}

/// An average of two of the values, or of one with itself.
struct Average {
  double value = 0;
  uint32_t first = 0;
  uint32_t second = 0;
};

/// The averages of all pairs of some values, in order. A resample holds no others: it only holds
/// each more or less often, so its median takes a walk and neither a sum nor a sort.
class OrderedAverages {
 public:
  explicit OrderedAverages(std::span<const double> values) {
    for (uint32_t i = 0; i < values.size(); ++i) {
      for (uint32_t j = i; j < values.size(); ++j) {
        averages_.push_back({(values[i] + values[j]) / 2, i, j});
      }
    }
    std::sort(averages_.begin(), averages_.end(),
              [](const Average& a, const Average& b) { return a.value < b.value; });
  }

  /// Estimates from a resample of as many values, which holds value i `copies[i]` times.
  [[nodiscard]] double median(const std::vector<uint32_t>& copies) const {
    const size_t half = averages_.size() / 2;
    auto at = averages_.begin();
    size_t passed = times(*at, copies);
    while (passed < half) passed += times(*++at, copies);
    const double below = at->value;
    while (passed <= half) passed += times(*++at, copies);
    return averages_.size() % 2 == 1 ? at->value : (below + at->value) / 2;
  }

 private:
  static size_t times(const Average& average, const std::vector<uint32_t>& copies) {
    const size_t first = copies[average.first];
    const size_t second = copies[average.second];
    return average.first == average.second ? first * (first + 1) / 2 : first * second;
  }

  std::vector<Average> averages_;
};

}  // namespace

std::vector<double> log_ratios(std::span<const double> base, std::span<const double> candidate) {
  if (base.size() != candidate.size()) throw std::logic_error("log ratios: unequal lengths");
  std::vector<double> ratios;
  for (size_t i = 0; i < base.size(); ++i) {
    if (!(base[i] > 0) || !(candidate[i] > 0)) {
      throw std::logic_error("log ratios: a figure is not positive");
    }
    ratios.push_back(std::log(candidate[i]) - std::log(base[i]));
  }
  check(ratios);
  return ratios;
}

double hodges_lehmann(std::span<const double> differences) {
  check(differences);
  std::vector<double> averages;
  for (size_t i = 0; i < differences.size(); ++i) {
    for (size_t j = i; j < differences.size(); ++j) {
      averages.push_back((differences[i] + differences[j]) / 2);
    }
  }
  const auto half = averages.begin() + static_cast<std::ptrdiff_t>(averages.size() / 2);
  std::nth_element(averages.begin(), half, averages.end());
  if (averages.size() % 2 == 1) return *half;
  return (*std::max_element(averages.begin(), half) + *half) / 2;
}

BootstrapEstimates::BootstrapEstimates(std::span<const double> differences, int64_t resamples,
                                       uint64_t seed) {
  check(differences);
  if (resamples < 1) throw std::logic_error("bootstrap: no resamples asked for");
  const OrderedAverages averages(differences);
  std::mt19937_64 generator(seed);
  std::vector<uint32_t> copies(differences.size());
  estimates_.resize(static_cast<size_t>(resamples));
  for (double& estimate : estimates_) {
    std::fill(copies.begin(), copies.end(), 0U);
    for (size_t i = 0; i < copies.size(); ++i) ++copies[index_below(generator, copies.size())];
    estimate = averages.median(copies);
  }
}

Interval BootstrapEstimates::interval(double confidence) const {
  const double tail = (1 - confidence) / 2;
  return {quantile(estimates_, tail), quantile(estimates_, 1 - tail)};
}

Interval bootstrap_hodges_lehmann(std::span<const double> differences,
                                  const BootstrapOptions& options) {
  return BootstrapEstimates(differences, options.resamples, options.seed)
      .interval(options.confidence);
}

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
  double above = 1;  ///< probability of the statistic or more
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

namespace {

void check(double margin, double alpha) {
  if (!(margin > 0)) throw std::logic_error("equivalence: the margin is not positive");
  if (!(alpha > 0 && alpha < 0.5)) throw std::logic_error("equivalence: alpha outside (0, 0.5)");
}

Equivalence without_spread(Equivalence e, double margin) {
  e.p_lower = e.difference > -margin ? 0 : 1;
  e.p_upper = e.difference < margin ? 0 : 1;
  e.interval = {e.difference, e.difference};
  return e;
}

Equivalence tested(Equivalence e, double margin, double alpha) {
  if (e.standard_error == 0) return without_spread(e, margin);
  const boost::math::students_t t(e.degrees);
  const double above = (e.difference + margin) / e.standard_error;
  const double below = (e.difference - margin) / e.standard_error;
  e.p_lower = boost::math::cdf(boost::math::complement(t, above));
  e.p_upper = boost::math::cdf(t, below);
  const double half = boost::math::quantile(boost::math::complement(t, alpha)) * e.standard_error;
  e.interval = {e.difference - half, e.difference + half};
  return e;
}

/// Squared standard error of a sample's mean.
double error_squared(std::span<const double> samples) {
  const double deviation = standard_deviation(samples);
  return deviation * deviation / static_cast<double>(samples.size());
}

}  // namespace

Equivalence paired_equivalence(std::span<const double> differences, double margin, double alpha) {
  check(margin, alpha);
  Equivalence e;
  e.standard_error = std::sqrt(error_squared(differences));
  e.difference = mean(differences);
  e.degrees = static_cast<double>(differences.size() - 1);
  return tested(e, margin, alpha);
}

Equivalence welch_equivalence(std::span<const double> base, std::span<const double> candidate,
                              double margin, double alpha, double known_variance) {
  check(margin, alpha);
  const double a = error_squared(base);
  const double b = error_squared(candidate);
  Equivalence e;
  e.difference = mean(candidate) - mean(base);
  const double variance = a + b + known_variance;
  e.standard_error = std::sqrt(variance);
  const double weights = a * a / static_cast<double>(base.size() - 1) +
                         b * b / static_cast<double>(candidate.size() - 1);
  e.degrees = weights > 0 ? variance * variance / weights : 1;
  if (weights == 0 && known_variance > 0) e.degrees = std::numeric_limits<double>::infinity();
  return tested(e, margin, alpha);
}

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

Interval clopper_pearson(int64_t hits, int64_t trials, double confidence) {
  if (trials < 1 || hits < 0 || hits > trials) {
    throw std::logic_error("clopper_pearson: more hits than trials, or none of either");
  }
  if (!(confidence > 0 && confidence < 1)) {
    throw std::logic_error("clopper_pearson: confidence outside (0, 1)");
  }
  using Binomial = boost::math::binomial_distribution<double>;
  const double tail = (1 - confidence) / 2;
  const auto n = static_cast<double>(trials);
  const auto k = static_cast<double>(hits);
  Interval interval{0, 1};
  if (hits > 0) interval.low = Binomial::find_lower_bound_on_p(n, k, tail);
  if (hits < trials) interval.high = Binomial::find_upper_bound_on_p(n, k, tail);
  return interval;
}

namespace {

constexpr int64_t kMostPairs = 1'000'000;

void check(double deviation, const Sensitivity& s) {
  if (!(deviation >= 0) || !std::isfinite(deviation)) {
    throw std::logic_error("repetitions: the deviation is negative or not finite");
  }
  if (!(s.alpha > 0 && s.alpha < s.power && s.power < 1)) {
    throw std::logic_error("repetitions: alpha < power do not lie in (0, 1)");
  }
}

/// The power of a one-sided t test against a true mean of `effect` standard errors.
double power_at(double effect, double degrees, double alpha) {
  const double critical =
      boost::math::quantile(boost::math::complement(boost::math::students_t(degrees), alpha));
  const boost::math::non_central_t t(degrees, effect);
  return boost::math::cdf(boost::math::complement(t, critical));
}

}  // namespace

double smallest_p(int64_t pairs) {
  if (pairs < 0) throw std::logic_error("repetitions: a negative number of pairs");
  return std::exp2(-static_cast<double>(pairs));
}

int64_t fewest_pairs(double alpha, int64_t tests) {
  if (!(alpha > 0 && alpha < 1)) throw std::logic_error("repetitions: alpha outside (0, 1)");
  if (tests < 1) throw std::logic_error("repetitions: no tests");
  int64_t pairs = 1;
  while (smallest_p(pairs) * static_cast<double>(tests) > alpha) ++pairs;
  return pairs;
}

// Brackets the effect by doubling, then to the last bits (Alefeld, Potra and Shi 1995).
double detectable_effect(double degrees, const Sensitivity& s) {
  check(0, s);
  if (!(degrees > 0)) throw std::logic_error("repetitions: no degrees of freedom");
  const auto lack = [&](double effect) { return power_at(effect, degrees, s.alpha) - s.power; };
  double low = 0;
  double high = 1;
  while (lack(high) < 0) low = std::exchange(high, 2 * high);
  std::uintmax_t iterations = 100;
  const boost::math::tools::eps_tolerance<double> tolerance;
  return boost::math::tools::toms748_solve(lack, low, high, tolerance, iterations).second;
}

double smallest_detectable(double deviation, int64_t pairs, const Sensitivity& sensitivity) {
  check(deviation, sensitivity);
  if (pairs < 2) throw std::logic_error("repetitions: fewer than two pairs");
  const auto count = static_cast<double>(pairs);
  return deviation / std::sqrt(count) * detectable_effect(count - 1, sensitivity);
}

int64_t pairs_to_detect(double deviation, double difference, const Sensitivity& sensitivity) {
  check(deviation, sensitivity);
  if (!(difference > 0)) throw std::logic_error("repetitions: the difference is not positive");
  if (deviation == 0) return 2;
  const auto enough = [&](int64_t pairs) {
    const auto count = static_cast<double>(pairs);
    const double effect = difference / deviation * std::sqrt(count);
    return power_at(effect, count - 1, sensitivity.alpha) >= sensitivity.power;
  };
  int64_t high = 2;
  while (!enough(high)) {
    if (high >= kMostPairs) throw std::logic_error("repetitions: needs more than a million pairs");
    high *= 2;
  }
  int64_t low = high / 2;  // too few, or below two
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

int64_t pairs_to_prove_equal(double deviation, double margin, const Sensitivity& sensitivity) {
  Sensitivity each = sensitivity;
  each.power = 1 - (1 - sensitivity.power) / 2;
  return pairs_to_detect(deviation, margin, each);
}

}  // namespace noisemark::reports
