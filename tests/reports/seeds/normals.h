#pragma once

#include <boost/math/distributions/normal.hpp>
#include <cstdint>
#include <random>

#include "reports/seeds/difference_test.h"

namespace noisemark::reports::test {

/// Seeded draws for simulations.
class Normals {
 public:
  explicit Normals(uint64_t seed) : generator_(seed) {}

  /// Draws from (0, 1).
  double uniform() { return (static_cast<double>(generator_() >> 11U) + 0.5) * 0x1p-53; }
  /// Draws by the inverse of the distribution, so that every platform draws the same.
  double draw() { return boost::math::quantile(boost::math::normal(), uniform()); }

 private:
  std::mt19937_64 generator_;
};

inline constexpr double kAlpha = 0.05;
inline constexpr double kMargin = 0.01;

/// Counts the studies that end in either verdict, as shares of all.
struct Rates {
  double pass = 0;
  double fail = 0;

  /// Counts one of `studies`.
  void count(bool passed, bool failed, int studies) {
    pass += passed ? 1.0 / studies : 0;
    fail += failed ? 1.0 / studies : 0;
  }
  void count(const DifferenceTest& found, double alpha, int studies) {
    count(found.equivalence.p() <= alpha, found.p_worse <= alpha, studies);
  }
};

}  // namespace noisemark::reports::test
