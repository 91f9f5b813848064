#include "reports/quality/range_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <random>
#include <stdexcept>

#include "reports/gate.h"
#include "reports/quality/looks.h"
#include "reports/quality/measures.h"
#include "reports/quality/variants.h"
#include "reports/random_index.h"

namespace noisemark::reports {
namespace {

void check(std::span<const double> values, size_t fewest) {
  if (values.size() < fewest) throw std::logic_error("range: too few values");
  for (const double value : values) {
    if (!std::isfinite(value)) throw std::logic_error("range: a value is not finite");
  }
}

Interval percentile_interval(std::span<const double> values, const BootstrapOptions& options) {
  std::mt19937_64 generator(options.seed);
  std::vector<double> means(static_cast<size_t>(options.resamples));
  std::vector<double> resample(values.size());
  for (double& one : means) {
    for (double& value : resample) value = values[index_below(generator, values.size())];
    one = mean(resample);
  }
  const double tail = (1 - options.confidence) / 2;
  return {quantile(means, tail), quantile(means, 1 - tail)};
}

Interval student_interval(std::span<const double> values, double confidence) {
  const auto count = static_cast<double>(values.size());
  const boost::math::students_t t(count - 1);
  const double half = boost::math::quantile(boost::math::complement(t, (1 - confidence) / 2)) *
                      standard_deviation(values) / std::sqrt(count);
  return {mean(values) - half, mean(values) + half};
}

/// The values of all runs, or what forbids a verdict.
std::vector<double> values_of(const std::vector<const NamedResult*>& runs, RangeRow& row) {
  std::vector<double> values;
  for (const NamedResult* run : runs) {
    const Result& result = run->result;
    const Observation found = observe(result, row.measure);
    const auto forbid = [&](QualityVerdict verdict, const std::string& words) {
      if (verdict <= row.verdict) return;
      row.verdict = verdict;
      row.words = fmt::format("seed {}: {}", result.seeds.base, words);
    };
    if (is_not_finite(result)) {
      forbid(QualityVerdict::kFail, "training was not finite");
    } else if (!is_finished(result)) {
      forbid(QualityVerdict::kInconclusive, "the run ended as \"" + result.exit.status + "\"");
    } else if (!found.value) {
      forbid(QualityVerdict::kInconclusive, found.missing_reason);
    } else {
      row.unit = found.unit;
      values.push_back(*found.value);
    }
  }
  return values;
}

}  // namespace

Interval resampled_interval(double value, std::span<const double> replicates, double confidence) {
  check(replicates, 1);
  check(std::span(&value, 1), 1);
  const double tail = (1 - confidence) / 2;
  const double centre = value + mean(replicates);
  return {centre - quantile(replicates, 1 - tail), centre - quantile(replicates, tail)};
}

Interval seed_interval(std::span<const double> values, const BootstrapOptions& options) {
  check(values, 2);
  const Interval drawn = percentile_interval(values, options);
  const Interval student = student_interval(values, options.confidence);
  return {std::min(drawn.low, student.low), std::max(drawn.high, student.high)};
}

RangeVerdict judge_range(const Interval& interval, double low, double high) {
  if (!(low < high)) throw std::logic_error("range: it holds nothing");
  if (low <= interval.low && interval.high <= high) {
    return {QualityVerdict::kPass, "within the range"};
  }
  if (interval.low > high) return {QualityVerdict::kFail, "above the range"};
  if (interval.high < low) return {QualityVerdict::kFail, "below the range"};
  return {QualityVerdict::kInconclusive, "the interval reaches across an end of the range"};
}

RangeRow judge_range_row(const std::vector<const NamedResult*>& runs, const QualityRange& range,
                         const BootstrapOptions& options, const Looks& looks) {
  RangeRow row;
  row.benchmark = workload_name(runs.front()->result.identity);
  row.variant = variant_name(runs.front()->result.identity);
  row.measure = range.measure;
  row.low = range.low;
  row.high = range.high;
  const std::vector<double> values = values_of(runs, row);
  row.seeds = static_cast<int64_t>(values.size());
  if (!values.empty()) row.mean = mean(values);
  if (values.size() >= 2) row.interval = seed_interval(values, options);
  if (row.verdict != QualityVerdict::kPass) return row;
  if (values.size() < kFewestSeedsOfRange) {
    row.verdict = QualityVerdict::kInconclusive;
    row.words = fmt::format("{} of at least {} seeds", values.size(), kFewestSeedsOfRange);
    return row;
  }
  const RangeVerdict judged =
      none_is_left(looks) ? RangeVerdict{QualityVerdict::kInconclusive, no_look_words(looks)}
                          : judge_range(*row.interval, range.low, range.high);
  row.verdict = judged.verdict;
  row.words = judged.words;
  return row;
}

}  // namespace noisemark::reports
