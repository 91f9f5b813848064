#include "reports/compare/evidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace noisemark::reports {
namespace {

constexpr double kOfRuns = 0.004;  ///< standard deviation of a run within its session
constexpr double kOfSessions = 0.03;
constexpr double kAllowed = 0.03;

/// Two sessions of one build, each as fast as its day.
TwoSamples sessions(std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  TwoSamples sides;
  for (std::vector<double>* side : {&sides.base, &sides.candidate}) {
    const double day = kOfSessions * normal(random);
    for (int run = 0; run < 16; ++run) side->push_back(day + kOfRuns * normal(random));
  }
  return sides;
}

/// Returns the share of trials that are called a regression: the interval and both p, as the gate
/// asks.
double alarm_rate(double session_deviation) {
  constexpr int kTrials = 4000;
  std::mt19937_64 random(7);
  int alarms = 0;
  for (int i = 0; i < kTrials; ++i) {
    const TwoSamples sides = sessions(random);
    const OneSided p = stored_p(sides, kAllowed, session_deviation);
    const Evidence evidence = stored_evidence(sides, kAllowed, session_deviation, 0.05);
    alarms += p.worse < 0.05 && p.beyond < 0.05 && evidence.wide.low > kAllowed ? 1 : 0;
  }
  return static_cast<double>(alarms) / kTrials;
}

TEST(StoredEvidence, of_days_that_differ_as_calibrated_cries_wolf_no_more_than_alpha) {
  EXPECT_LE(alarm_rate(std::numbers::sqrt2 * kOfSessions), 0.05);
}

TEST(StoredEvidence, of_days_that_differ_more_than_anybody_calibrated_cries_wolf) {
  // The bound of comparisons in turns knows nothing of days: of 3 % days it calls one in six a
  // regression. Calibrations therefore keep how far separate units differ.
  EXPECT_GT(alarm_rate(0.005), 0.15);
}

TEST(StoredEvidence, still_finds_what_is_far_beyond_the_days) {
  TwoSamples sides;
  for (int run = 0; run < 16; ++run) {
    sides.base.push_back(0.001 * (run % 4));
    sides.candidate.push_back(0.001 * (run % 4) + std::log(1.25));
  }
  const double deviation = std::numbers::sqrt2 * kOfSessions;
  EXPECT_LT(stored_p(sides, kAllowed, deviation).beyond, 0.001);
  EXPECT_GT(stored_evidence(sides, kAllowed, deviation, 0.05).wide.low, kAllowed);
}

}  // namespace
}  // namespace noisemark::reports
