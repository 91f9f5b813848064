// These tests count errors of the verdicts on simulated rounds whose truth is known.
#include "reports/compare/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>
#include <random>

#include "reports/result/metrics.h"
#include "tests/reports/compare/runs.h"

namespace noisemark::reports {
namespace {

constexpr size_t kPairs = 8;
constexpr int kTrials = 200;
constexpr double kMargin = 0.03;

class Normal {
 public:
  explicit Normal(uint64_t seed) : generator_(seed) {}
  double operator()() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  double uniform() { return (static_cast<double>(generator_() >> 11U) + 0.5) * 0x1p-53; }
  std::mt19937_64 generator_;
};

/// Verdicts on images/s over many trials in which the new side takes `slower` times as long, each
/// run off by `noise`.
std::map<CompareVerdict, int> verdicts(double slower, double noise, uint64_t seed) {
  Normal normal(seed);
  Side base = test::side("old", std::vector<double>(kPairs, 1));
  Side candidate = test::side("new", std::vector<double>(kPairs, 1));
  for (Side* side : {&base, &candidate}) {
    for (NamedResult& run : side->runs) run.result.metrics.resize(1);
  }
  StochasticOptions options;
  options.resamples = 200;
  std::map<CompareVerdict, int> counts;
  for (int trial = 0; trial < kTrials; ++trial) {
    for (size_t i = 0; i < kPairs; ++i) {
      base.runs[i].result.metrics[0].value = std::exp(noise * normal());
      candidate.runs[i].result.metrics[0].value = std::exp(noise * normal()) / slower;
    }
    const auto rows = compare_stochastic(pair_runs(base, candidate).both, options);
    ++counts[rows.at(0).verdict];
  }
  return counts;
}

// 5 % of the trials, and three standard errors of such a count.
const double kMostErrors = kTrials * 0.05 + 3 * std::sqrt(kTrials * 0.05 * 0.95);

TEST(StochasticTier, rarely_errs_at_the_margin_itself) {
  for (const double noise : {0.002, 0.01, 0.03}) {
    auto counts = verdicts(1 + kMargin, noise, 1);
    EXPECT_LE(counts[CompareVerdict::kRegression], kMostErrors) << noise;
    EXPECT_LE(counts[CompareVerdict::kEquivalent] + counts[CompareVerdict::kNotWorse] +
                  counts[CompareVerdict::kImproved],
              kMostErrors)
        << noise;
  }
}

TEST(StochasticTier, alarms_about_an_untouched_twin_at_most_once_in_a_hundred) {
  for (const double noise : {0.002, 0.01, 0.05}) {
    EXPECT_LE(verdicts(1, noise, 2)[CompareVerdict::kRegression], kTrials / 100) << noise;
  }
}

TEST(StochasticTier, proves_what_is_plain) {
  EXPECT_GE(verdicts(1.10, 0.01, 3)[CompareVerdict::kRegression], 0.99 * kTrials);
  EXPECT_GE(verdicts(1.00, 0.01, 4)[CompareVerdict::kEquivalent], 0.99 * kTrials);
  EXPECT_GE(verdicts(0.90, 0.01, 5)[CompareVerdict::kImproved], 0.99 * kTrials);
}

TEST(StochasticTier, gates_throughput_and_validation_loss) {
  std::vector<std::string> names;
  for (const MetricRow& gate : gated_metrics()) names.emplace_back(gate.name);
  EXPECT_EQ(names, (std::vector<std::string>{"images_per_s", "val_loss"}));
}

}  // namespace
}  // namespace noisemark::reports
