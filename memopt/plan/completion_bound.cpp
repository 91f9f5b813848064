#include "memopt/plan/completion_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace noisemark::memopt::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Point {
  double x = 0;
  double y = 0;
};

/// Appends the falls of the points' lower convex hull, per unit of x.
void append_falls(std::vector<Point> points, std::vector<double>& falls) {
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  std::vector<Point> hull;
  const auto fall = [](const Point& a, const Point& b) { return (a.y - b.y) / (b.x - a.x); };
  for (const Point& p : points) {
    if (!hull.empty() && p.y >= hull.back().y) continue;
    while (hull.size() > 1 && fall(hull[hull.size() - 2], hull.back()) <= fall(hull.back(), p)) {
      hull.pop_back();
    }
    hull.push_back(p);
  }
  for (size_t i = 1; i < hull.size(); ++i) falls.push_back(fall(hull[i - 1], hull[i]));
}

std::vector<double> sorted_finite(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace

CompletionBound::CompletionBound(const Problem& problem, std::vector<double> prices,
                                 double error_price)
    : prices_(std::move(prices)), error_price_(error_price) {
  held_scale_ = static_cast<double>(problem.most_held_bytes);
  for (const auto& options : problem.blocks) {
    double most = 0;
    for (const Option& o : options) most = std::max(most, o.cost + error_price * o.error_squared);
    cost_scale_ += most;
  }
  std::vector<double> offsets;
  for (const double price : prices_) offsets.push_back(-price * held_scale_);
  lower_by_rounding(offsets);
  lines_.resize(problem.blocks.size() + 1);
  lines_.back() = envelope(offsets);
  for (size_t i = problem.blocks.size(); i-- > 0;) {
    offsets = offsets_before(problem.blocks[i], problem.least_before_bytes[i], offsets);
    lower_by_rounding(offsets);
    lines_[i] = envelope(offsets);
  }
}

// With p the price before the block, the bound wants the least over an option's range of h, what is
// held before it, of cost + (bound after at h + held) - p h. Under any price q after the block, the
// bound after is at least offset(q) + q (h + held): for q <= p the least is at the range's end, for
// q >= p at its start. The best q for every p are two running maxima.
std::vector<double> CompletionBound::offsets_before(const std::vector<Option>& options,
                                                    int64_t least_before_bytes,
                                                    const std::vector<double>& after) const {
  const size_t count = prices_.size();
  const auto least = static_cast<double>(least_before_bytes);
  std::vector<double> before(count, kInfinity);
  std::vector<double> value(count);
  for (const Option& option : options) {
    const auto most = static_cast<double>(option.most_before_bytes);
    const auto held = static_cast<double>(option.held_bytes);
    const double cost = option.cost + error_price_ * option.error_squared;
    double running = -kInfinity;
    for (size_t p = 0; p < count; ++p) {
      running = std::max(running, after[p] + prices_[p] * (most + held));
      value[p] = running - prices_[p] * most;
    }
    running = -kInfinity;
    for (size_t p = count; p-- > 0;) {
      running = std::max(running, after[p] + prices_[p] * (least + held));
      value[p] = std::max(value[p], running - prices_[p] * least);
      before[p] = std::min(before[p], cost + value[p]);
    }
  }
  return before;
}

// Everything that is summed up to the next call, and by a caller for his own costs, is at most this
// scale and fewer than 30 operations.
void CompletionBound::lower_by_rounding(std::vector<double>& offsets) const {
  constexpr double kOperations = 32;
  constexpr double kUnit = std::numeric_limits<double>::epsilon();
  for (size_t p = 0; p < offsets.size(); ++p) {
    offsets[p] -= kOperations * kUnit * (cost_scale_ + prices_[p] * held_scale_);
  }
}

std::vector<CompletionBound::Line> CompletionBound::envelope(
    const std::vector<double>& offsets) const {
  std::vector<Line> lines;
  for (size_t p = 0; p < offsets.size(); ++p) {
    Line line{prices_[p], offsets[p], 0};
    while (!lines.empty()) {
      const Line& last = lines.back();
      line.from = (last.offset - line.offset) / (line.price - last.price);
      if (line.from > last.from) break;
      lines.pop_back();
    }
    if (lines.empty()) line.from = 0;
    lines.push_back(line);
  }
  return lines;
}

const CompletionBound::Line& CompletionBound::best(size_t first, double held_before_bytes) const {
  const std::vector<Line>& lines = lines_[first];
  const auto above =
      std::upper_bound(lines.begin() + 1, lines.end(), held_before_bytes,
                       [](double held, const Line& line) { return held < line.from; });
  return *(above - 1);
}

std::vector<double> byte_prices(const Problem& problem, double error_price) {
  std::vector<double> falls;
  for (const auto& options : problem.blocks) {
    std::vector<Point> by_held;
    std::vector<Point> by_room;
    for (const Option& option : options) {
      const double cost = option.cost + error_price * option.error_squared;
      by_held.push_back({static_cast<double>(option.held_bytes), cost});
      by_room.push_back({-static_cast<double>(option.most_before_bytes), cost});
    }
    append_falls(std::move(by_held), falls);
    append_falls(std::move(by_room), falls);
  }
  return sorted_finite(std::move(falls));
}

std::vector<double> error_prices(const Problem& problem, double byte_price) {
  std::vector<double> falls;
  for (const auto& options : problem.blocks) {
    std::vector<Point> points;
    for (const Option& option : options) {
      const double held = byte_price * static_cast<double>(option.held_bytes);
      points.push_back({option.error_squared, option.cost + held});
    }
    append_falls(std::move(points), falls);
  }
  return sorted_finite(std::move(falls));
}

std::vector<double> spread(const std::vector<double>& ascending, size_t count) {
  if (ascending.size() <= count) return ascending;
  std::vector<double> picked;
  for (size_t i = 0; i < count; ++i) {
    picked.push_back(ascending[i * (ascending.size() - 1) / (count - 1)]);
  }
  return picked;
}

}  // namespace noisemark::memopt::plan
