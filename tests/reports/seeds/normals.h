#pragma once

#include <boost/math/distributions/normal.hpp>
#include <cstdint>
#include <random>

namespace noisemark::reports::test {

/// Seeded draws for simulations.
class Normals {
 public:
  explicit Normals(uint64_t seed) : generator_(seed) {}

  /// In (0, 1).
  double uniform() { return (static_cast<double>(generator_() >> 11U) + 0.5) * 0x1p-53; }
  /// By the inverse of the distribution, so that every platform draws the same.
  double draw() { return boost::math::quantile(boost::math::normal(), uniform()); }

 private:
  std::mt19937_64 generator_;
};

}  // namespace noisemark::reports::test
