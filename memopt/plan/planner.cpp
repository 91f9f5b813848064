#include "memopt/plan/planner.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>

namespace noisemark::memopt {
namespace {

/// So few choices are all tried.
constexpr size_t kTryAll = 256;
/// Budgets, evenly spread, whose best choices by the blocks' estimates are put through the
/// timeline.
constexpr int64_t kBudgets = 16;
/// A search this wide finds good choices in a fraction of a millisecond.
constexpr size_t kLabels = 64;
/// Attempts to take something off the smallest peak.
constexpr int kDescents = 3;

/// Choices of a block that are worth trying, as far as its estimates tell.
std::vector<std::vector<size_t>> worth_trying(const std::vector<plan::Block>& blocks) {
  std::vector<std::vector<size_t>> worth;
  for (const plan::Block& block : blocks) {
    std::vector<size_t> options;
    for (size_t o = 0; o < block.size(); ++o) {
      const bool known = std::any_of(options.begin(), options.end(), [&](size_t other) {
        const plan::Choice& a = block[other];
        const plan::Choice& b = block[o];
        return a.held_bytes == b.held_bytes && a.window_bytes == b.window_bytes &&
               a.cost_ns == b.cost_ns && a.error_squared == b.error_squared;
      });
      if (!known) options.push_back(o);
    }
    worth.push_back(std::move(options));
  }
  return worth;
}

std::vector<PlanPoint> pareto(std::vector<PlanPoint> points, BudgetTarget target) {
  std::stable_sort(points.begin(), points.end(), [&](const PlanPoint& a, const PlanPoint& b) {
    return std::pair(a.cost_ns, a.of(target)) < std::pair(b.cost_ns, b.of(target));
  });
  std::vector<PlanPoint> kept;
  for (PlanPoint& point : points) {
    if (kept.empty() || point.of(target) < kept.back().of(target)) kept.push_back(std::move(point));
  }
  return kept;
}

/// Every block is treated alike.
bool is_uniform(const std::vector<size_t>& chosen) {
  return std::adjacent_find(chosen.begin(), chosen.end(), std::not_equal_to<>()) == chosen.end();
}

}  // namespace

std::optional<double> BudgetAnswer::gap() const {
  if (point.cost_ns == 0) return 0;
  if (lower_bound_ns <= 0) return std::nullopt;
  return (static_cast<double>(point.cost_ns) - lower_bound_ns) / lower_bound_ns;
}

Planner::Planner(std::shared_ptr<const BlockOptions> options, BudgetTarget target,
                 CodecFigures figures, ErrorModel errors)
    : options_(std::move(options)),
      target_(target),
      figures_(std::move(figures)),
      errors_(std::move(errors)),
      other_(other_bytes(options_->graph())),
      bound_(*options_, figures_) {
  std::vector<PeakTimeline> uniform;
  std::vector<PlanPoint> points;
  for (size_t o = 0; o < options_->options().size(); ++o) {
    const std::vector<size_t> chosen(options_->blocks(), o);
    const size_t same = options_->same_as(o);
    uniform.push_back(same < o ? uniform[same] : simulate(options_->plan(chosen), figures_));
    points.push_back(point_of(uniform.back(), chosen));
  }
  kept_bytes_ = points.front().of(target_);
  blocks_ = options_->choices(uniform, other_, target == BudgetTarget::kPeak);
  for (size_t block = 0; block < blocks_.size(); ++block) {
    for (size_t o = 0; o < blocks_[block].size(); ++o) {
      blocks_[block][o].error_squared = errors_.of(block, o);
    }
  }
  std::erase_if(points, [&](const PlanPoint& point) { return !errors_.allows(point.chosen); });
  std::vector<std::vector<size_t>> choices = all_choices();
  tried_all_ = !choices.empty();
  if (!tried_all_) choices = likely_choices();
  for (const std::vector<size_t>& chosen : choices) {
    if (errors_.allows(chosen) && !is_uniform(chosen)) points.push_back(evaluate(chosen));
  }
  if (!tried_all_) lower_the_smallest(points);
  curve_ = pareto(std::move(points), target_);
}

PlanPoint Planner::evaluate(const std::vector<size_t>& chosen) const {
  return point_of(simulate(options_->plan(chosen), figures_), chosen);
}

PlanPoint Planner::point_of(const PeakTimeline& timeline, const std::vector<size_t>& chosen) const {
  PlanPoint point;
  point.chosen = chosen;
  point.peak_bytes = memopt::peak_bytes(timeline, other_);
  point.peak_saved_bytes = timeline.peak_saved_bytes;
  point.saved_bytes = timeline.saved_bytes;
  point.cost_ns = timeline.cost_ns;
  point.error = std::sqrt(errors_.of(chosen));
  return point;
}

/// Empty when there are too many.
std::vector<std::vector<size_t>> Planner::all_choices() const {
  std::vector<std::vector<size_t>> all = {{}};
  for (const std::vector<size_t>& options : worth_trying(blocks_)) {
    if (all.size() * options.size() > kTryAll) return {};
    std::vector<std::vector<size_t>> longer;
    for (const std::vector<size_t>& chosen : all) {
      for (const size_t option : options) {
        longer.push_back(chosen);
        longer.back().push_back(option);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::vector<std::vector<size_t>> Planner::likely_choices() const {
  std::set<std::vector<size_t>> likely;
  const plan::Limits any = limits_within(std::numeric_limits<int64_t>::max());
  const int64_t smallest = plan::smallest_peak(blocks_, any);
  const int64_t range = plan::solve(blocks_, any, kLabels)->peak_bytes - smallest;
  for (int64_t i = 0; i <= kBudgets; ++i) {
    const plan::Limits limits = limits_within(smallest + range / kBudgets * i);
    likely.insert(plan::solve(blocks_, limits, kLabels)->chosen);
  }
  return {likely.begin(), likely.end()};
}

plan::Limits Planner::limits_within(int64_t peak_bytes) const {
  plan::Limits limits;
  limits.peak_bytes = peak_bytes;
  limits.error_squared = errors_.limit_squared;
  return limits;
}

/// The blocks' estimates are coarsest where the smallest peak is decided: other options are tried
/// one by one on the plan with the smallest peak.
void Planner::lower_the_smallest(std::vector<PlanPoint>& points) const {
  const std::vector<std::vector<size_t>> worth = worth_trying(blocks_);
  const auto smaller = [this](const PlanPoint& a, const PlanPoint& b) {
    return std::pair(a.of(target_), a.cost_ns) < std::pair(b.of(target_), b.cost_ns);
  };
  for (int descent = 0; descent < kDescents; ++descent) {
    const PlanPoint smallest = *std::min_element(points.begin(), points.end(), smaller);
    const PeakTimeline timeline = simulate(options_->plan(smallest.chosen), figures_);
    size_t peak_event = 0;
    for (size_t e = 0; e < timeline.events.size(); ++e) {
      const auto bytes = [&](size_t i) {
        const TimelineEvent& event = timeline.events[i];
        return target_ == BudgetTarget::kPeak ? live_bytes(timeline, other_, i)
                                              : std::max(event.between.saved, event.at.saved);
      };
      if (bytes(e) > bytes(peak_event)) peak_event = e;
    }
    const SlotId slot = timeline.events[peak_event].slot;
    if (slot == kNone) return;
    const size_t block = options_->block_at(slot);
    bool lower = false;
    for (const size_t option : worth[block]) {
      std::vector<size_t> chosen = smallest.chosen;
      if (std::exchange(chosen[block], option) == option || !errors_.allows(chosen)) continue;
      points.push_back(evaluate(chosen));
      lower = lower || smaller(points.back(), smallest);
    }
    if (!lower) return;
  }
}

std::optional<BudgetAnswer> Planner::within(int64_t budget_bytes) const {
  const auto is_within = [&](const PlanPoint& p) {
    return budget_for(target_, p.of(target_)) <= budget_bytes;
  };
  // From the cheapest on, the bytes fall.
  const auto point = std::find_if(curve_.begin(), curve_.end(), is_within);
  if (point == curve_.end()) return std::nullopt;
  BudgetAnswer answer;
  answer.point = *point;
  answer.exact = tried_all_;
  answer.lower_bound_ns =
      budget_bytes < kept_bytes_ ? bound_.to_free(kept_bytes_ - budget_bytes) : 0;
  return answer;
}

}  // namespace noisemark::memopt
