// Measures what it costs to train under mode "none", which asks for every saved tensor and is told
// to keep it.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reports/base/statistics.h"
#include "tests/memopt/scoped_steps.h"

namespace noisemark::suite {
namespace {

/// At most 1 % is asked for. A machine is not quiet enough to prove that by a few seconds;
/// what is red is a cost of which the whole 95 % interval of the median ratio is above.
TEST(ModeNone, costs_no_more_than_one_percent_of_a_step) {
  constexpr int kRounds = 400;
  constexpr int kFirst = 20;
  memopt::test::ScopedSteps steps(16);
  std::vector<double> ratios;
  for (int i = 0; i < kFirst + kRounds; ++i) {
    double scoped_s = 0;
    if (i % 2 == 0) scoped_s = steps.in_scope();
    const double plain_s = steps.without_scope();
    if (i % 2 == 1) scoped_s = steps.in_scope();
    if (i >= kFirst) ratios.push_back(scoped_s / plain_s);
  }
  const auto interval = reports::median_interval(ratios);
  ASSERT_TRUE(interval.has_value());
  RecordProperty("overhead_low", std::to_string(interval->low - 1));
  RecordProperty("overhead_high", std::to_string(interval->high - 1));
  EXPECT_LE(interval->low - 1, 0.01) << "up to " << interval->high - 1;
}

}  // namespace
}  // namespace noisemark::suite
