#include "memopt/plan/block_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace noisemark::memopt::plan {
namespace {

constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();

bool countable(double figure) {
  return std::isfinite(figure) && figure >= 0;
}

void check_choice(const Choice& choice, size_t block) {
  const bool sound = choice.held_bytes >= 0 && choice.window_bytes >= 0 &&
                     countable(choice.cost_ns) && countable(choice.error_squared);
  if (sound) return;
  throw std::invalid_argument("block " + std::to_string(block) +
                              ": a figure of a choice is negative or not finite");
}

int64_t most_held(const Block& block) {
  int64_t most = 0;
  for (const Choice& choice : block) most = std::max(most, choice.held_bytes);
  return most;
}

double most_error(const std::vector<std::vector<ReachableChoice>>& blocks) {
  double sum = 0;
  for (const auto& options : blocks) {
    double most = 0;
    for (const ReachableChoice& option : options) most = std::max(most, option.error_squared);
    sum += most;
  }
  return sum;
}

bool dominates(const Choice& a, const Choice& b) {
  return a.held_bytes <= b.held_bytes && a.window_bytes <= b.window_bytes &&
         a.cost_ns <= b.cost_ns && a.error_squared <= b.error_squared;
}

/// Returns whether choice `index` is beaten, or equalled by an earlier one.
bool dominated(const Block& block, size_t index) {
  for (size_t i = 0; i < block.size(); ++i) {
    if (i == index || !dominates(block[i], block[index])) continue;
    if (i < index || !dominates(block[index], block[i])) return true;
  }
  return false;
}

/// Indices of the choices that no other one of the block beats or equals; of equals, the first.
std::vector<size_t> undominated(const Block& block) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < block.size(); ++i) {
    if (!dominated(block, i)) kept.push_back(i);
  }
  return kept;
}

int64_t most_before(const std::vector<ReachableChoice>& options) {
  int64_t most = -1;
  for (const ReachableChoice& option : options) most = std::max(most, option.most_before_bytes);
  return most;
}

/// Removes what asks for less than the earlier blocks must hold; returns the least held after.
int64_t drop_unreachable(std::vector<ReachableChoice>& options, int64_t least_before) {
  std::erase_if(options,
                [&](const ReachableChoice& o) { return o.most_before_bytes < least_before; });
  int64_t least = kMostBytes;
  for (const ReachableChoice& option : options)
    least = std::min(least, least_before + option.held_bytes);
  return least;
}

}  // namespace

bool Problem::limits_error() const {
  return error_limit < std::numeric_limits<double>::infinity();
}

Problem Problem::with_error_as_cost() const {
  Problem problem = *this;
  problem.error_limit = std::numeric_limits<double>::infinity();
  for (auto& options : problem.blocks) {
    for (ReachableChoice& option : options) option.cost = std::exchange(option.error_squared, 0);
  }
  return problem;
}

Reduced::Reduced(const std::vector<Block>& blocks) : blocks_(blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].empty()) {
      throw std::invalid_argument("block " + std::to_string(i) + ": no choices");
    }
    for (const Choice& choice : blocks[i]) {
      check_choice(choice, i);
      if (std::max(choice.window_bytes, choice.held_bytes) > kMostBytes - most_held_bytes_) {
        throw std::invalid_argument("blocks: their bytes do not fit 63 bits");
      }
    }
    most_held_bytes_ += most_held(blocks[i]);
    kept_.push_back(undominated(blocks[i]));
  }
}

std::optional<Problem> Reduced::within(const Limits& limits) const {
  if (std::isnan(limits.error_squared)) {
    throw std::invalid_argument("limits: the error is not a number");
  }
  Problem problem;
  problem.blocks.resize(blocks_.size());
  problem.most_held_bytes = std::min(limits.held_bytes, most_held_bytes_);
  int64_t most = limits.peak_bytes < 0 ? -1 : problem.most_held_bytes;
  for (size_t i = blocks_.size(); i-- > 0 && most >= 0;) {
    for (const size_t index : kept_[i]) {
      const Choice& c = blocks_[i][index];
      const int64_t before = std::min(limits.peak_bytes - c.window_bytes, most - c.held_bytes);
      if (before < 0) continue;
      problem.blocks[i].push_back({c.held_bytes, c.cost_ns, c.error_squared, before, index});
    }
    most = most_before(problem.blocks[i]);
  }
  if (most < 0) return std::nullopt;
  int64_t least = 0;
  for (auto& options : problem.blocks) {
    problem.least_before_bytes.push_back(least);
    least = drop_unreachable(options, least);
  }
  problem.error_limit = most_error(problem.blocks) <= limits.error_squared
                            ? std::numeric_limits<double>::infinity()
                            : limits.error_squared;
  return problem;
}

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
    for (const ReachableChoice& o : options)
      most = std::max(most, o.cost + error_price * o.error_squared);
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
std::vector<double> CompletionBound::offsets_before(const std::vector<ReachableChoice>& options,
                                                    int64_t least_before_bytes,
                                                    const std::vector<double>& after) const {
  const size_t count = prices_.size();
  const auto least = static_cast<double>(least_before_bytes);
  std::vector<double> before(count, kInfinity);
  std::vector<double> value(count);
  for (const ReachableChoice& option : options) {
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
    for (const ReachableChoice& option : options) {
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
    for (const ReachableChoice& option : options) {
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
