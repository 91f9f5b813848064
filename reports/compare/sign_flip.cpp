#include "reports/compare/sign_flip.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

namespace noisemark::reports {
namespace {

constexpr size_t kMostExact = 20;

/// Counts sums of signed values at or beyond the one at hand, on either side.
class Tally {
 public:
  explicit Tally(std::span<const double> values)
      : values_(values), observed_(std::accumulate(values.begin(), values.end(), 0.0)) {
    double magnitude = 0;
    for (const double value : values) magnitude += std::abs(value);
    // n additions round by at most n/2 ulp of the largest sum.
    rounding_ =
        static_cast<double>(values.size()) * magnitude * std::numeric_limits<double>::epsilon();
  }

  void add(double sum) {
    ++all_;
    if (sum <= observed_ + rounding_) ++below_;
    if (sum >= observed_ - rounding_) ++above_;
  }

  void add_all(size_t from = 0, double sum = 0) {
    if (from == values_.size()) return add(sum);
    add_all(from + 1, sum + values_[from]);
    add_all(from + 1, sum - values_[from]);
  }

  void add_drawn(std::mt19937_64& generator) {
    double sum = 0;
    uint64_t signs = 0;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (i % 64 == 0) signs = generator();
      sum += (signs & 1U) != 0 ? values_[i] : -values_[i];
      signs >>= 1U;
    }
    add(sum);
  }

  [[nodiscard]] double observed() const { return observed_; }
  [[nodiscard]] double p(Alternative alternative) const {
    const double below = below_ / all_;
    const double above = above_ / all_;
    if (alternative == Alternative::kLess) return below;
    if (alternative == Alternative::kGreater) return above;
    return std::min(1.0, 2 * std::min(below, above));
  }

 private:
  std::span<const double> values_;
  double observed_ = 0;
  double rounding_ = 0;
  double all_ = 0;
  double below_ = 0;
  double above_ = 0;
};

void check(std::span<const double> differences, const SignFlipOptions& options) {
  if (differences.empty()) throw std::logic_error("sign flip: no differences");
  if (options.draws < 1) throw std::logic_error("sign flip: no draws asked for");
  for (const double value : differences) {
    if (!std::isfinite(value)) throw std::logic_error("sign flip: a value is not finite");
  }
}

}  // namespace

SignFlip sign_flip_test(std::span<const double> differences, Alternative alternative,
                        const SignFlipOptions& options) {
  check(differences, options);
  Tally tally(differences);
  const bool exact = differences.size() <= kMostExact;
  if (exact) {
    tally.add_all();
  } else {
    std::mt19937_64 generator(options.seed);
    tally.add(tally.observed());
    for (int64_t i = 0; i < options.draws; ++i) tally.add_drawn(generator);
  }
  const auto count = static_cast<double>(differences.size());
  return {tally.observed() / count, tally.p(alternative), exact};
}

}  // namespace noisemark::reports
