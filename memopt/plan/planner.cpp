#include "memopt/plan/planner.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "memopt/plan/freed_storages.h"

namespace noisemark::memopt {
namespace {

/// The option that keeps everything.
constexpr size_t kKeep = 0;
/// The least error of a block, as a part of an even share. No block is taken to be without error:
/// it may have one another time.
constexpr double kLeastShare = 1e-3;
/// Stands for a gradient that is not finite, which no budget allows.
constexpr double kMostError = 1e6;
/// The number of choices up to which all are tried.
constexpr size_t kTryAll = 256;
/// Budgets, evenly spread, whose best choices by the blocks' estimates are put through the
/// timeline.
constexpr int64_t kBudgets = 10;
/// A search this wide finds good choices in a fraction of a millisecond.
constexpr size_t kLabels = 64;
/// Attempts to take something off the smallest peak.
constexpr int kDescents = 2;
/// Attempts to put a plan between two, of each search.
constexpr int kFilled = 5;

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

/// The first of those that are equally small, whatever they cost.
const PlanPoint& smallest_of(const std::vector<PlanPoint>& points, BudgetTarget target) {
  return *std::min_element(
      points.begin(), points.end(),
      [target](const PlanPoint& a, const PlanPoint& b) { return a.of(target) < b.of(target); });
}

/// The choices of the first `count` options.
std::vector<plan::Block> first_of(std::vector<plan::Block> blocks, size_t count) {
  for (plan::Block& block : blocks) block.resize(count);
  return blocks;
}

/// Bytes of a point of a curve and of the one before it.
std::pair<int64_t, int64_t> ends_of(const PlanPoint* point, BudgetTarget target) {
  return {(point - 1)->of(target), point->of(target)};
}

/// Returns whether the choice was put through the timeline already, with nothing held beside it.
bool is_known(const std::vector<PlanPoint>& points, const std::vector<size_t>& chosen) {
  return std::any_of(points.begin(), points.end(), [&](const PlanPoint& point) {
    return point.held.empty() && point.chosen == chosen;
  });
}

/// Every block is treated alike.
bool is_uniform(const std::vector<size_t>& chosen) {
  return std::adjacent_find(chosen.begin(), chosen.end(), std::not_equal_to<>()) == chosen.end();
}

/// Asks for the errors of plans that round in one way.
class Measurement {
 public:
  Measurement(const BlockOptions& options, const MeasureError& error_of)
      : options_(options), error_of_(error_of) {}

  /// The squared error when everything is rounded in this way.
  double of_all(size_t option) const {
    return squared_error(std::vector<size_t>(options_.blocks(), option));
  }

  /// Returns what each block has of the sum over the blocks.
  std::vector<double> shares(size_t option) const {
    std::vector<double> shares(options_.blocks(), 0);
    for (size_t block = 0; block < shares.size(); ++block) {
      std::vector<size_t> chosen(shares.size(), kKeep);
      chosen[block] = option;
      shares[block] = squared_error(chosen);
    }
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    const double least = kLeastShare / static_cast<double>(shares.size());
    for (double& share : shares) share = std::max(sum > 0 ? share / sum : 1, least);
    return shares;
  }

 private:
  /// Exact plans are not measured.
  [[nodiscard]] double squared_error(const std::vector<size_t>& chosen) const {
    auto plan = std::make_shared<const TreatmentPlan>(options_.plan(chosen));
    bool rounds = false;
    for (size_t block = 0; block < chosen.size(); ++block) {
      rounds = rounds || options_.rounds_in(block, *plan);
    }
    if (!rounds) return 0;
    const double error = std::min(error_of_(plan), kMostError);
    return error * error;
  }

  const BlockOptions& options_;
  const MeasureError& error_of_;
};

}  // namespace

double ErrorModel::of(const std::vector<size_t>& chosen) const {
  double sum = 0;
  for (size_t block = 0; block < chosen.size(); ++block) sum += of(block, chosen[block]);
  return sum;
}

void ErrorModel::scale(double factor) {
  for (std::vector<double>& block : squared) {
    for (double& error : block) error *= factor;
  }
}

void ErrorModel::take_larger(const ErrorModel& other) {
  for (size_t block = 0; block < squared.size(); ++block) {
    for (size_t option = 0; option < squared[block].size(); ++option) {
      squared[block][option] = std::max(squared[block][option], other.of(block, option));
    }
  }
}

void ErrorModel::forbid_rounding(const std::vector<BlockOption>& options) {
  for (std::vector<double>& block : squared) {
    for (size_t o = 0; o < block.size(); ++o) {
      block[o] = options[o].rounding.empty() ? 0 : 2 * limit_squared;
    }
  }
}

ErrorModel measured_error_model(const BlockOptions& options, const MeasureError& error_of,
                                double limit) {
  const Measurement measurement(options, error_of);
  std::map<std::string, double> of_all;
  std::vector<double> shares;
  for (size_t o = 0; o < options.options().size(); ++o) {
    const BlockOption& option = options.options()[o];
    if (option.rounding.empty() || option.recomputes) continue;
    of_all[option.rounding] = measurement.of_all(o);
    if (option.compares_blocks) shares = measurement.shares(o);
  }
  ErrorModel model;
  model.limit_squared = limit * limit;
  for (size_t block = 0; block < options.blocks(); ++block) {
    model.squared.emplace_back();
    for (const BlockOption& option : options.options()) {
      const bool exact = option.rounding.empty();
      model.squared.back().push_back(exact ? 0 : of_all.at(option.rounding) * shares.at(block));
    }
  }
  return model;
}

std::optional<double> BudgetAnswer::gap() const {
  if (point.cost_ns == 0) return 0;
  if (lower_bound_ns <= 0) return std::nullopt;
  return (static_cast<double>(point.cost_ns) - lower_bound_ns) / lower_bound_ns;
}

Planner::Planner(std::shared_ptr<const BlockOptions> options, BudgetTarget target,
                 CodecFigures figures, ErrorModel errors, const PassesBeside& beside)
    : options_(std::move(options)),
      target_(target),
      figures_(std::move(figures)),
      errors_(std::move(errors)),
      kept_(kept_timeline(options_->graph())),
      other_(other_bytes(*options_->graph(), kept_)),
      beside_(beside),
      bound_(*options_, figures_, kept_, other_, target == BudgetTarget::kPeak) {
  std::vector<PlanPoint> uniform = uniform_points();
  const auto limited = uniform.begin() + static_cast<std::ptrdiff_t>(options_->unlimited());
  std::vector<PlanPoint> points;
  add_allowed(points, uniform.begin(), limited);
  tried_all_ = search(points, options_->unlimited());
  if (limited != uniform.end()) {
    add_allowed(points, limited, uniform.end());
    tried_all_ = search(points, options_->options().size());
  }
  curve_ = pareto(std::move(points), target_);
}

/// The plans in which all blocks have one option, from which the blocks' estimates are read off.
std::vector<PlanPoint> Planner::uniform_points() {
  std::vector<PeakTimeline> uniform;
  std::vector<PlanPoint> points;
  for (size_t o = 0; o < options_->options().size(); ++o) {
    const std::vector<size_t> chosen(options_->blocks(), o);
    const size_t same = options_->same_as(o);
    if (o == 0) uniform.push_back(kept_);
    if (o > 0) {
      uniform.push_back(same < o ? uniform[same] : simulate(options_->plan(chosen), figures_));
    }
    points.push_back(point_of(uniform.back(), chosen));
  }
  blocks_ = options_->choices(uniform, other_, target_ == BudgetTarget::kPeak);
  for (size_t block = 0; block < blocks_.size(); ++block) {
    for (size_t o = 0; o < blocks_[block].size(); ++o) {
      blocks_[block][o].error_squared = errors_.of(block, o);
    }
  }
  return points;
}

void Planner::add_allowed(std::vector<PlanPoint>& points, std::vector<PlanPoint>::iterator begin,
                          std::vector<PlanPoint>::iterator end) const {
  std::copy_if(begin, end, std::back_inserter(points),
               [this](const PlanPoint& point) { return errors_.allows(point.chosen); });
}

/// Adds to what was found among fewer options. It is true when all choices among the first so many
/// options were tried.
bool Planner::search(std::vector<PlanPoint>& points, size_t options) {
  const bool first = options == options_->unlimited();
  std::vector<std::vector<size_t>> choices = all_choices(options);
  const bool all = !choices.empty();
  if (!all && first) {
    lower_the_smallest(points);
    sure_bytes_ = smallest_of(points, target_).of(target_);
  }
  if (!all) choices = likely_choices(options);
  for (const std::vector<size_t>& chosen : choices) {
    if (errors_.allows(chosen) && !is_uniform(chosen) && !is_known(points, chosen)) {
      points.push_back(evaluate(chosen));
    }
  }
  if (!all && first) lower_the_smallest(points);
  if (all && first) sure_bytes_ = smallest_of(points, target_).of(target_);
  fill_gaps(points);
  return all;
}

PlanPoint Planner::evaluate(const std::vector<size_t>& chosen,
                            const std::vector<StorageId>& held) const {
  PlanPoint point = point_of(simulate(options_->plan(chosen, held), figures_), chosen);
  point.held = held;
  return point;
}

PlanPoint Planner::point_of(const PeakTimeline& timeline, const std::vector<size_t>& chosen) const {
  PlanPoint point;
  point.chosen = chosen;
  point.peak_bytes = memopt::peak_bytes(timeline, other_, beside_);
  point.peak_saved_bytes = timeline.peak_saved_bytes;
  point.saved_bytes = timeline.saved_bytes;
  point.cost_ns = timeline.cost_ns;
  point.error = std::sqrt(errors_.of(chosen));
  return point;
}

/// Chooses among the first `count` options; empty when there are too many.
std::vector<std::vector<size_t>> Planner::all_choices(size_t count) const {
  std::vector<std::vector<size_t>> all = {{}};
  for (size_t block = 0; block < blocks_.size(); ++block) {
    std::vector<size_t> options = options_->distinct_in(block);
    std::erase_if(options, [count](size_t option) { return option >= count; });
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

std::vector<std::vector<size_t>> Planner::likely_choices(size_t count) const {
  const std::vector<plan::Block> blocks = first_of(blocks_, count);
  std::set<std::vector<size_t>> likely;
  const plan::Limits any = limits_within(std::numeric_limits<int64_t>::max());
  const int64_t smallest = plan::smallest_peak(blocks, any);
  const int64_t range = plan::solve(blocks, any, kLabels)->peak_bytes - smallest;
  for (int64_t i = 0; i <= kBudgets; ++i) {
    const plan::Limits limits = limits_within(smallest + range / kBudgets * i);
    likely.insert(plan::solve(blocks, limits, kLabels)->chosen);
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
/// one by one on the plan with the smallest peak. Those with a price limit, which hold more, are
/// left out.
void Planner::lower_the_smallest(std::vector<PlanPoint>& points) const {
  const std::vector<std::vector<size_t>> worth =
      worth_trying(first_of(blocks_, options_->unlimited()));
  for (int descent = 0; descent < kDescents; ++descent) {
    const PlanPoint smallest = smallest_of(points, target_);
    const PeakTimeline timeline = simulate(plan(smallest), figures_);
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
      if (is_known(points, chosen)) continue;
      points.push_back(evaluate(chosen));
      lower = lower || points.back().of(target_) < smallest.of(target_);
    }
    if (!lower) return;
  }
}

/// A gap is wide where much memory and much time lie between its ends.
void Planner::fill_gaps(std::vector<PlanPoint>& points) const {
  std::set<std::pair<int64_t, int64_t>> tried;  // by the bytes of both ends
  for (int i = 0; i < kFilled; ++i) {
    const std::vector<PlanPoint> curve = pareto(points, target_);
    const PlanPoint* smaller = nullptr;
    double widest = 0;
    for (size_t p = 1; p < curve.size(); ++p) {
      const int64_t bytes = curve[p - 1].of(target_) - curve[p].of(target_);
      const int64_t ns = curve[p].cost_ns - curve[p - 1].cost_ns;
      const double width = static_cast<double>(bytes) * static_cast<double>(ns);
      if (width <= widest || tried.count(ends_of(&curve[p], target_)) != 0) continue;
      widest = width;
      smaller = &curve[p];
    }
    if (smaller == nullptr) return;
    tried.insert(ends_of(smaller, target_));
    std::vector<StorageId> held = to_hold_between(*(smaller - 1), *smaller);
    if (held.empty()) continue;
    points.push_back(evaluate(smaller->chosen, held));
  }
}

/// The storages that the smaller plan holds in any case, and of those that it recomputes the ones
/// that cost most for each byte, up to about half of the bytes that lie between the two.
std::vector<StorageId> Planner::to_hold_between(const PlanPoint& larger,
                                                const PlanPoint& smaller) const {
  std::vector<FreedStorage> freed = freed_storages(plan(smaller), figures_);
  std::stable_sort(freed.begin(), freed.end(), [](const FreedStorage& a, const FreedStorage& b) {
    return a.ns_per_byte() > b.ns_per_byte();
  });
  std::vector<StorageId> held = smaller.held;
  const int64_t gap = larger.of(target_) - smaller.of(target_);
  int64_t taken = 0;
  for (const FreedStorage& storage : freed) {
    if (taken + storage.bytes >= gap) continue;
    held.push_back(storage.storage);
    taken += storage.bytes;
    if (2 * taken >= gap) break;
  }
  return taken > 0 ? held : std::vector<StorageId>{};
}

std::optional<BudgetAnswer> Planner::within(int64_t budget_bytes) const {
  const auto is_within = [&](const PlanPoint& p) {
    return budget_for(target_, p.of(target_)) <= budget_bytes;
  };
  // The bytes fall from the cheapest on.
  const auto point = std::find_if(curve_.begin(), curve_.end(), is_within);
  if (point == curve_.end()) return std::nullopt;
  BudgetAnswer answer;
  answer.point = *point;
  answer.exact = tried_all_;
  answer.lower_bound_ns = bound_.within(budget_bytes);
  return answer;
}

}  // namespace noisemark::memopt
