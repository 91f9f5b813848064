#include "reports/predict/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

/// A point so near to a line lies on it, however exact its own interval is.
constexpr double kOnALine = 0.02;
/// Standard deviations on either side that hold 95 % of a normal distribution.
constexpr double kNormal95 = 1.96;
constexpr double kOfMost = 0.95;
constexpr int64_t kLargestBatch = int64_t{1} << 40;

double half_width(const BatchPoint& point) {
  return (point.step_ci95.high - point.step_ci95.low) / 2;
}

double weighted(const std::vector<double>& weights, const std::vector<BatchPoint>& points,
                double (*of)(const BatchPoint&)) {
  double sum = 0;
  for (size_t i = 0; i < points.size(); ++i) sum += weights[i] * of(points[i]);
  return sum;
}

double time_of(const BatchPoint& point) {
  return point.step_s;
}
double bytes_of(const BatchPoint& point) {
  return static_cast<double>(point.peak_bytes);
}

}  // namespace

BatchPoint batch_point(const Result& result, const std::string& where) {
  if (!metric_value(result, kRateMetric)) {
    throw bad_input(where, std::string(kRateMetric), "not measured", "a run that measured it");
  }
  if (!result.memory.measured) {
    throw bad_input(where, "peak_bytes", "not measured: " + result.memory.missing_reason,
                    "a run that measured it");
  }
  const MemorySnapshot& peak = result.memory.peak;
  BatchPoint point;
  point.batch = result.protocol.batch;
  point.peak_bytes = result.memory.peak_bytes;
  point.peak_at = result.memory.peak_phase + ", " + result.memory.peak_operator;
  point.owners = peak.by_category;
  if (peak.unattributed_bytes != 0) point.owners["unattributed"] = peak.unattributed_bytes;
  return point;
}

StepTime step_in_turns(const std::vector<TurnBlock>& blocks, double reference_s) {
  std::vector<double> ratios;
  for (const TurnBlock& block : blocks) {
    ratios.push_back(median(block.step_s) / median(block.reference_s));
  }
  const Interval interval = median_interval(ratios).value();
  return {median(ratios) * reference_s, {interval.low * reference_s, interval.high * reference_s}};
}

BatchModel::BatchModel(std::vector<BatchPoint> points) : points_(std::move(points)) {
  std::sort(points_.begin(), points_.end(),
            [](const BatchPoint& a, const BatchPoint& b) { return a.batch < b.batch; });
  const auto twice = std::adjacent_find(
      points_.begin(), points_.end(),
      [](const BatchPoint& a, const BatchPoint& b) { return a.batch == b.batch; });
  if (points_.size() < 3 || twice != points_.end()) {
    throw bad_input("predict", "batch sizes", std::to_string(points_.size()),
                    "at least three different ones");
  }
  find_deviations();
  find_bend();
}

void BatchModel::find_deviations() {
  double squares = 0;
  for (const BatchPoint& point : points_) {
    const double fitted = weighted(line(static_cast<double>(point.batch)), points_, time_of);
    const double residual = std::abs(fitted - point.step_s);
    straight_ = straight_ && residual <= std::max(kOnALine * point.step_s, half_width(point));
    squares += std::pow(residual / point.step_s, 2);
  }
  const double beside = std::sqrt(squares / static_cast<double>(points_.size() - 2));
  for (const BatchPoint& point : points_) {
    const double own = half_width(point) / kNormal95;
    deviations_.push_back(straight_ ? std::max(own, beside * point.step_s) : own);
  }
}

void BatchModel::find_bend() {
  const auto slope = [&](size_t i) {
    return (points_[i + 1].step_s - points_[i].step_s) /
           static_cast<double>(points_[i + 1].batch - points_[i].batch);
  };
  for (size_t i = 0; i + 2 < points_.size(); ++i) {
    const auto distance = static_cast<double>(points_[i + 2].batch - points_[i].batch);
    bend_ = std::max(bend_, std::abs(slope(i + 1) - slope(i)) / distance);
  }
}

/// The error of the straight line that the weights make, of a time that bends all along.
double BatchModel::error_at(double batch, const Weights& weights) const {
  double squares = batch * batch;
  for (size_t i = 0; i < weights.size(); ++i) {
    squares -= weights[i] * std::pow(static_cast<double>(points_[i].batch), 2);
  }
  return bend_ * std::abs(squares);
}

/// Weighted least squares: a weight is one over the square of the time, so errors are relative.
BatchModel::Weights BatchModel::line(double batch) const {
  double sum = 0;
  double sum_x = 0;
  double sum_xx = 0;
  for (const BatchPoint& point : points_) {
    const double weight = 1 / (point.step_s * point.step_s);
    const auto x = static_cast<double>(point.batch);
    sum += weight;
    sum_x += weight * x;
    sum_xx += weight * x * x;
  }
  const double determinant = sum * sum_xx - sum_x * sum_x;
  Weights weights;
  for (const BatchPoint& point : points_) {
    const double weight = 1 / (point.step_s * point.step_s);
    const auto x = static_cast<double>(point.batch);
    weights.push_back(weight * ((sum_xx - sum_x * x) + (sum * x - sum_x) * batch) / determinant);
  }
  return weights;
}

BatchModel::Weights BatchModel::pieces(double batch) const {
  size_t right = 1;
  while (right + 1 < points_.size() && static_cast<double>(points_[right].batch) < batch) ++right;
  const auto a = static_cast<double>(points_[right - 1].batch);
  const auto b = static_cast<double>(points_[right].batch);
  Weights weights(points_.size(), 0.0);
  weights[right] = (batch - a) / (b - a);
  weights[right - 1] = 1 - weights[right];
  return weights;
}

BatchPrediction BatchModel::at(int64_t batch) const {
  const BatchPoint& first = points_.front();
  const BatchPoint& last = points_.back();
  BatchPrediction found;
  found.batch = batch;
  if (batch < first.batch || batch > last.batch) {
    found.range =
        2 * batch < first.batch || batch > last_near() ? BatchRange::kBeyond : BatchRange::kNear;
  }
  const auto x = static_cast<double>(batch);
  const Weights weights = times(x);
  double variance = 0;
  for (size_t i = 0; i < weights.size(); ++i) variance += std::pow(weights[i] * deviations_[i], 2);
  // Nothing is faster per image below the points than at the first, nor a larger batch than a
  // smaller one.
  const double least = batch < first.batch  ? first.step_s * x / static_cast<double>(first.batch)
                       : batch > last.batch ? last.step_s
                                            : 0;
  found.step_s = std::max(weighted(weights, points_, time_of), least);
  const double reach = std::hypot(kNormal95 * std::sqrt(variance), error_at(x, weights));
  found.step_ci95 = {std::max(found.step_s - reach, 0.0), found.step_s + reach};
  found.peak_bytes = std::max<int64_t>(std::llround(weighted(pieces(x), points_, bytes_of)), 0);
  return found;
}

std::optional<int64_t> BatchModel::largest_within(int64_t bytes) const {
  if (at(1).peak_bytes > bytes || at(kLargestBatch).peak_bytes <= bytes) return std::nullopt;
  int64_t fits = 1;
  int64_t too_large = kLargestBatch;
  while (too_large - fits > 1) {
    const int64_t middle = fits + (too_large - fits) / 2;
    (at(middle).peak_bytes <= bytes ? fits : too_large) = middle;
  }
  return fits;
}

int64_t BatchModel::knee() const {
  double most = 0;
  for (int64_t batch = 1; batch <= last_near(); ++batch) {
    most = std::max(most, at(batch).images_per_s());
  }
  int64_t batch = 1;
  while (at(batch).images_per_s() < kOfMost * most) ++batch;
  return batch;
}

std::optional<Overtaking> overtaking(const BatchModel& variant, const BatchModel& other) {
  for (int64_t batch = 1; batch <= other.last_near(); ++batch) {
    const BatchPrediction slower = other.at(batch);
    const std::optional<int64_t> larger = variant.largest_within(slower.peak_bytes);
    if (!larger) continue;
    if (variant.at(*larger).images_per_s() > slower.images_per_s()) {
      return Overtaking{batch, slower.peak_bytes, *larger};
    }
  }
  return std::nullopt;
}

std::vector<int64_t> held_out_batches(const std::vector<int64_t>& batches, int64_t step) {
  std::vector<int64_t> sorted = batches;
  std::sort(sorted.begin(), sorted.end());
  std::set<int64_t> found;
  const auto add = [&](double batch) {
    const auto near = std::llround(batch / static_cast<double>(step)) * step;
    if (!std::binary_search(sorted.begin(), sorted.end(), near)) found.insert(near);
  };
  if (sorted.size() >= 3) {
    const auto last = static_cast<double>(sorted.back());
    for (size_t i = sorted.size() - 2; i < sorted.size(); ++i) {
      add((static_cast<double>(sorted[i - 1]) + static_cast<double>(sorted[i])) / 2);
    }
    for (const double beyond : {1.25, 1.5, 2.0}) add(beyond * last);
  }
  if (found.size() == 5) return {found.begin(), found.end()};
  throw bad_input("--check", "batch sizes", fmt::format("{}", fmt::join(sorted, ", ")),
                  fmt::format("three with other multiples of {} between them, as {}, {} and {}",
                              step, 2 * step, 4 * step, 8 * step));
}

}  // namespace noisemark::reports
