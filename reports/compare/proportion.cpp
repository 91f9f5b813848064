#include "reports/compare/proportion.h"

#include <boost/math/distributions/binomial.hpp>
#include <stdexcept>

namespace noisemark::reports {

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

}  // namespace noisemark::reports
