#include "reports/base/statistics.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace noisemark::reports {
namespace {

using Json = nlohmann::json;

Json fixtures() {
  std::ifstream in(NOISEMARK_TEST_FOLDER "/statistics_fixtures.json");
  return Json::parse(in).at("cases");
}

// numpy interpolates with one rounding more than we do; both are within 2 ulp of the exact value.
void expect_close(double found, double expected, const std::string& what) {
  EXPECT_NEAR(found, expected, 4 * std::numeric_limits<double>::epsilon() * std::abs(expected))
      << what;
}

TEST(Statistics, quantiles_equal_numpy) {
  for (const Json& c : fixtures()) {
    const auto values = c.at("values").get<std::vector<double>>();
    for (const auto& [p, expected] : c.at("quantiles").items()) {
      expect_close(quantile(values, std::stod(p)), expected, c.at("name"));
    }
    EXPECT_EQ(median(values), c.at("median")) << c.at("name");
  }
}

TEST(Statistics, spread_equals_scipy) {
  for (const Json& c : fixtures()) {
    const auto values = c.at("values").get<std::vector<double>>();
    expect_close(median_absolute_deviation(values), c.at("mad"), c.at("name"));
    // numpy sums pairwise: n additions differ by at most n ulp.
    const double tolerance = 1e-16 * static_cast<double>(values.size());
    EXPECT_NEAR(mean(values) / c.at("mean").get<double>(), 1, tolerance) << c.at("name");
    EXPECT_NEAR(standard_deviation(values) / c.at("sd").get<double>(), 1, 4 * tolerance + 1e-15)
        << c.at("name");
  }
}

TEST(Statistics, median_interval_equals_scipy) {
  int present = 0;
  for (const Json& c : fixtures()) {
    const auto values = c.at("values").get<std::vector<double>>();
    for (const auto& [confidence, expected] : c.at("interval").items()) {
      const auto interval = median_interval(values, std::stod(confidence));
      ASSERT_EQ(interval.has_value(), !expected.is_null()) << c.at("name") << " " << confidence;
      if (!interval) continue;
      ++present;
      EXPECT_EQ(interval->low, expected.at(0)) << c.at("name") << " " << confidence;
      EXPECT_EQ(interval->high, expected.at(1)) << c.at("name") << " " << confidence;
    }
  }
  EXPECT_GE(present, 10);
}

TEST(Statistics, refuses_what_has_no_answer) {
  const std::vector<double> none;
  const std::vector<double> one{1};
  const std::vector<double> bad{1, std::numeric_limits<double>::infinity()};
  EXPECT_THROW((void)median(none), std::logic_error);
  EXPECT_THROW((void)median(bad), std::logic_error);
  EXPECT_THROW((void)quantile(one, 1.5), std::logic_error);
  EXPECT_THROW((void)standard_deviation(one), std::logic_error);
  EXPECT_EQ(median_interval(one), std::nullopt);
}

}  // namespace
}  // namespace noisemark::reports
