#include "memopt/plan/block_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "memopt/plan/block_problem.h"

namespace noisemark::memopt::plan {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr double kWithoutLimit = std::numeric_limits<double>::infinity();

/// The bounds that a partial selection is compared with. `cost` bounds have error prices of their
/// own.
struct Bounds {
  std::vector<CompletionBound> cost;     ///< bounds, at least one
  std::optional<CompletionBound> error;  ///< bound of with_error_as_cost(); empty: no error limit
};

struct SearchLimits {
  double cutoff = 0;        ///< selections that cost more are not wanted
  size_t max_labels = 0;    ///< number kept for each block, at least one
  bool or_nothing = false;  ///< rather find nothing than discard labels
};

struct Found {
  std::vector<size_t> chosen;  ///< option positions
  double cost = 0;             ///< infinity when nothing was found
  double discarded = 0;        ///< no selection through a discarded label costs less; infinity when
                               ///< none was
  bool gave_up = false;
};

struct Label {
  int64_t held_bytes = 0;
  double cost = 0;
  double error = 0;
  double bound = 0;  ///< lower bound on the cost of every completion
  uint32_t parent = 0;
  uint32_t option = 0;
};

/// Equal parts of the range of held bytes, one for each label.
class Ranges {
 public:
  void divide(const std::vector<Label>& labels) {
    of_.clear();
    if (labels.empty()) return;
    const auto [least, most] = std::minmax_element(
        labels.begin(), labels.end(),
        [](const Label& a, const Label& b) { return a.held_bytes < b.held_bytes; });
    const int64_t start = least->held_bytes;
    const auto width = static_cast<double>(most->held_bytes - start);
    const double per_byte = width > 0 ? static_cast<double>(labels.size() - 1) / width : 0;
    for (const Label& label : labels) {
      of_.push_back(
          static_cast<uint32_t>(static_cast<double>(label.held_bytes - start) * per_byte));
    }
  }
  [[nodiscard]] uint32_t of(size_t label) const { return of_[label]; }

 private:
  std::vector<uint32_t> of_;
};

class Search {
 public:
  Search(const Problem& problem, const Bounds& bounds, const SearchLimits& limits)
      : problem_(problem), bounds_(bounds), limits_(limits), stages_{{Label{}}} {}

  Found run() {
    for (size_t block = 0; block < problem_.blocks.size(); ++block) {
      extend(block);
      sort_candidates();
      remove_beaten(sorted_);
      if (sorted_.size() > limits_.max_labels) {
        if (limits_.or_nothing) return {{}, kWithoutLimit, kWithoutLimit, true};
        thin(sorted_);
      }
      stages_.push_back(sorted_);
    }
    return best();
  }

 private:
  void extend(size_t block) {
    candidates_.clear();
    const std::vector<Label>& parents = stages_.back();
    for (uint32_t option = 0; option < problem_.blocks[block].size(); ++option) {
      const ReachableChoice& o = problem_.blocks[block][option];
      for (uint32_t parent = 0; parent < parents.size(); ++parent) {
        const Label& p = parents[parent];
        if (p.held_bytes > o.most_before_bytes) break;
        Label label{p.held_bytes + o.held_bytes,
                    p.cost + o.cost,
                    p.error + o.error_squared,
                    0,
                    parent,
                    option};
        if (completes(label, block + 1)) candidates_.push_back(label);
      }
    }
  }

  bool completes(Label& label, size_t next_block) const {
    if (bounds_.error) {
      const double error = label.error + (*bounds_.error)(next_block, label.held_bytes);
      if (label.error > problem_.error_limit || error > problem_.error_limit) return false;
    }
    label.bound = label.cost;
    for (const CompletionBound& bound : bounds_.cost) {
      double cost = label.cost + bound(next_block, label.held_bytes);
      if (bound.error_price() > 0) {
        cost -= bound.error_price() * (problem_.error_limit - label.error);
      }
      label.bound = std::max(label.bound, cost);
    }
    return label.bound <= limits_.cutoff;
  }

  /// Sorts by bytes, cost, error and positions: first into as many ranges of bytes as there are
  /// labels, then within each. Labels that cost no less than one of a lower range are left out,
  /// which is most of them where few sums are distinct.
  void sort_candidates() {
    const size_t count = candidates_.size();
    ranges_.divide(candidates_);
    least_.assign(count, kWithoutLimit);
    for (size_t i = 0; i < count; ++i) {
      double& least = least_[ranges_.of(i)];
      least = std::min(least, candidates_[i].cost);
    }
    std::exclusive_scan(least_.begin(), least_.end(), least_.begin(), kWithoutLimit,
                        [](double a, double b) { return std::min(a, b); });
    const auto beaten = [&](size_t i) {
      return !bounds_.error && candidates_[i].cost >= least_[ranges_.of(i)];
    };
    ends_.assign(count + 1, 0);
    for (size_t i = 0; i < count; ++i) ends_[ranges_.of(i) + 1] += beaten(i) ? 0 : 1;
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    sorted_.resize(ends_.back());
    for (size_t i = count; i-- > 0;) {
      if (!beaten(i)) sorted_[--ends_[ranges_.of(i) + 1]] = candidates_[i];
    }
    // Each range now begins where the counting left its end.
    for (size_t range = 1; range <= count; ++range) {
      const size_t end = range == count ? sorted_.size() : ends_[range + 1];
      if (end - ends_[range] > 1) sort_part(ends_[range], end);
    }
  }

  void sort_part(size_t begin, size_t end) {
    std::sort(sorted_.begin() + static_cast<std::ptrdiff_t>(begin),
              sorted_.begin() + static_cast<std::ptrdiff_t>(end),
              [&](const Label& a, const Label& b) {
                if (a.held_bytes != b.held_bytes) return a.held_bytes < b.held_bytes;
                if (a.cost != b.cost) return a.cost < b.cost;
                return a.error != b.error ? a.error < b.error : earlier(a, b);
              });
  }

  /// Returns whether the smaller positions are those of `a`, both being labels after the same
  /// block.
  bool earlier(const Label& a, const Label& b) const {
    size_t option_a = a.option;
    size_t option_b = b.option;
    size_t parent_a = a.parent;
    size_t parent_b = b.parent;
    for (size_t stage = stages_.size() - 1; parent_a != parent_b; --stage) {
      option_a = stages_[stage][parent_a].option;
      option_b = stages_[stage][parent_b].option;
      parent_a = stages_[stage][parent_a].parent;
      parent_b = stages_[stage][parent_b].parent;
    }
    return option_a < option_b;
  }

  /// Keeps of sorted labels those that none before them beats.
  void remove_beaten(std::vector<Label>& labels) const {
    if (bounds_.error) return remove_beaten_in_three(labels);
    double least = kWithoutLimit;
    std::erase_if(labels, [&](const Label& label) {
      if (label.cost >= least) return true;
      least = label.cost;
      return false;
    });
  }

  static void remove_beaten_in_three(std::vector<Label>& labels) {
    struct Corner {
      double cost;
      double error;
    };
    std::vector<Corner> stairs;  // rising cost, falling error
    std::erase_if(labels, [&](const Label& label) {
      const auto above = std::upper_bound(stairs.begin(), stairs.end(), label.cost,
                                          [](double c, const Corner& s) { return c < s.cost; });
      if (above != stairs.begin() && (above - 1)->error <= label.error) return true;
      const auto first = std::lower_bound(stairs.begin(), stairs.end(), label.cost,
                                          [](const Corner& s, double c) { return s.cost < c; });
      auto last = first;
      while (last != stairs.end() && last->error >= label.error) ++last;
      stairs.insert(stairs.erase(first, last), Corner{label.cost, label.error});
      return false;
    });
  }

  /// Keeps half of the places for the lowest bounds, and spreads the others over the bytes held:
  /// where many bounds agree, what fits best at the end is not known yet.
  void thin(std::vector<Label>& labels) {
    const size_t lowest = (limits_.max_labels + 1) / 2;
    std::vector<double> bounds;
    for (const Label& label : labels) bounds.push_back(label.bound);
    const auto last = bounds.begin() + static_cast<std::ptrdiff_t>(lowest - 1);
    std::nth_element(bounds.begin(), last, bounds.end());
    const double limit = *last;
    size_t places = lowest;
    const size_t others = labels.size() - lowest;
    const size_t spread = limits_.max_labels - lowest;
    size_t share = 0;
    std::erase_if(labels, [&](const Label& label) {
      if (label.bound <= limit && places > 0) {
        --places;
        return false;
      }
      share += spread;
      if (share >= others) {
        share -= others;
        return false;
      }
      discarded_ = std::min(discarded_, label.bound);
      return true;
    });
  }

  Found best() const {
    const std::vector<Label>& last = stages_.back();
    const Label* chosen = nullptr;
    for (const Label& label : last) {
      // Labels are in the order of the other ties.
      if (chosen == nullptr || label.cost < chosen->cost) chosen = &label;
    }
    if (chosen == nullptr) return {{}, kWithoutLimit, discarded_, false};
    Found found{std::vector<size_t>(stages_.size() - 1), chosen->cost, discarded_, false};
    for (size_t stage = stages_.size() - 1; stage > 0; --stage) {
      found.chosen[stage - 1] = chosen->option;
      chosen = &stages_[stage - 1][chosen->parent];
    }
    return found;
  }

  const Problem& problem_;
  const Bounds& bounds_;
  const SearchLimits& limits_;
  std::vector<std::vector<Label>> stages_;  ///< labels after each block, with one before the first
  double discarded_ = kWithoutLimit;

  // Room that every block uses again.
  std::vector<Label> candidates_;
  std::vector<Label> sorted_;
  Ranges ranges_;
  std::vector<double> least_;
  std::vector<size_t> ends_;
};

/// Dynamic program over the blocks with labels (held, cost, error), none of which another one
/// beats or equals. Labels that cannot be completed within the cutoff and the error limit, by the
/// bounds, are dropped; where more than `max_labels` are left, those of the lowest bounds stay.
/// It gives the cheapest selection; ties: fewer held bytes, less error, smaller positions.
Found search_labels(const Problem& problem, const Bounds& bounds, const SearchLimits& limits) {
  return Search(problem, bounds, limits).run();
}

struct Minimum {
  std::vector<size_t> chosen;                                    ///< option positions
  double cost = std::numeric_limits<double>::infinity();         ///< infinity: nothing found
  double lower_bound = std::numeric_limits<double>::infinity();  ///< no selection costs less
};

struct Effort {
  size_t max_labels = 0;
  std::optional<double> enough = {};  ///< any selection of at most this cost will do
};

constexpr size_t kCoarsePrices = 48;
constexpr size_t kSearchPrices = 32;
constexpr size_t kBytePrices = 8;
constexpr double kRankTolerance = 1;
constexpr size_t kFinePrices = 16;
constexpr size_t kFirstWidth = 4;
constexpr size_t kNarrowWidth = 64;
constexpr double kClose = 0.05;  // distance to the bound that is not worth a wide search, which is
                                 // not exact either

std::vector<double> coarse_prices(const Problem& problem, double error_price, size_t count) {
  std::vector<double> prices = spread(byte_prices(problem, error_price), count);
  prices.insert(prices.begin(), 0);
  return prices;
}

CompletionBound coarse_bound(const Problem& problem, double error_price) {
  return {problem, coarse_prices(problem, error_price, kCoarsePrices), error_price};
}

double least_total(const Problem& problem, const CompletionBound& bound) {
  const double total = bound(0, 0);
  if (bound.error_price() == 0) return total;
  return total - bound.error_price() * problem.error_limit;
}

std::vector<double> likely_error_prices(const Problem& problem) {
  std::vector<double> prices;
  for (const double byte_price : spread(byte_prices(problem, 0), kBytePrices)) {
    const std::vector<double> more = error_prices(problem, byte_price);
    prices.insert(prices.end(), more.begin(), more.end());
  }
  std::sort(prices.begin(), prices.end());
  return prices;
}

/// Returns what lies at a rank between the values of an ascending list.
double interpolated(const std::vector<double>& ascending, double rank) {
  const size_t below = std::min(static_cast<size_t>(rank), ascending.size() - 2);
  const double part = rank - static_cast<double>(below);
  return ascending[below] + part * (ascending[below + 1] - ascending[below]);
}

/// The error price with the highest bound, which is concave in it: golden-section search (Kiefer
/// 1953) over the ranks of the likely prices.
double best_error_price(const Problem& problem) {
  const std::vector<double> likely = likely_error_prices(problem);
  if (likely.size() < 2) return likely.empty() ? 0 : likely.front();
  const double middle = interpolated(likely, static_cast<double>(likely.size() - 1) / 2);
  const std::vector<double> prices = coarse_prices(problem, middle, kSearchPrices);
  const auto total = [&](double rank) {
    return least_total(problem, CompletionBound(problem, prices, interpolated(likely, rank)));
  };
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double low = 0;
  auto high = static_cast<double>(likely.size() - 1);
  double left = high - golden * (high - low);
  double right = low + golden * (high - low);
  double at_left = total(left);
  double at_right = total(right);
  while (high - low > kRankTolerance) {
    if (at_left < at_right) {
      low = std::exchange(left, right);
      at_left = at_right;
      right = low + golden * (high - low);
      at_right = total(right);
    } else {
      high = std::exchange(right, left);
      at_right = at_left;
      left = high - golden * (high - low);
      at_left = total(left);
    }
  }
  return interpolated(likely, (low + high) / 2);
}

/// Adds to a bound's prices finer ones on both sides of each that was used along a selection.
CompletionBound refined(const Problem& problem, const CompletionBound& bound,
                        const std::vector<size_t>& chosen) {
  const std::vector<double>& coarse = bound.prices();
  const std::vector<double> all = byte_prices(problem, bound.error_price());
  std::vector<double> prices = coarse;
  int64_t held = 0;
  for (size_t block = 0; block < problem.blocks.size(); ++block) {
    const auto used = std::lower_bound(coarse.begin(), coarse.end(), bound.price(block, held));
    const double low = used == coarse.begin() ? 0 : *(used - 1);
    const double high = used + 1 == coarse.end() ? *used : *(used + 1);
    const std::vector<double> near(std::lower_bound(all.begin(), all.end(), low),
                                   std::upper_bound(all.begin(), all.end(), high));
    const std::vector<double> fine = spread(near, kFinePrices);
    prices.insert(prices.end(), fine.begin(), fine.end());
    held += problem.blocks[block][chosen[block]].held_bytes;
  }
  std::sort(prices.begin(), prices.end());
  prices.erase(std::unique(prices.begin(), prices.end()), prices.end());
  return {problem, std::move(prices), bound.error_price()};
}

Bounds coarse_bounds(const Problem& problem) {
  Bounds bounds;
  bounds.cost.push_back(coarse_bound(problem, 0));
  if (!problem.limits_error()) return bounds;
  bounds.error = coarse_bound(problem.with_error_as_cost(), 0);
  const double error_price = best_error_price(problem);
  if (error_price > 0) bounds.cost.push_back(coarse_bound(problem, error_price));
  return bounds;
}

double cost_of(const Problem& problem, const std::vector<size_t>& chosen) {
  double cost = 0;
  for (size_t i = 0; i < chosen.size(); ++i) cost += problem.blocks[i][chosen[i]].cost;
  return cost;
}

double least_total(const Problem& problem, const Bounds& bounds) {
  double least = 0;
  for (const CompletionBound& bound : bounds.cost) {
    least = std::max(least, least_total(problem, bound));
  }
  return least;
}

void take_better(Minimum& minimum, Found found) {
  if (found.cost > minimum.cost) return;
  minimum.cost = found.cost;
  minimum.chosen = std::move(found.chosen);
}

/// The cheapest selection: dual prices, a narrow search for an incumbent, prices refined along its
/// path, then a narrow and a wide search until one discards nothing, which is then exact. The wide
/// one is cut short where it would discard something and the incumbent is close to the bound.
/// `incumbent` is a selection within the limits, empty when none is known.
Minimum minimize(const Problem& problem, const Effort& effort, std::vector<size_t> incumbent) {
  Minimum minimum;
  if (incumbent.size() == problem.blocks.size() && !incumbent.empty()) {
    minimum.cost = cost_of(problem, incumbent);
    minimum.chosen = std::move(incumbent);
  }
  Bounds bounds = coarse_bounds(problem);
  take_better(minimum, search_labels(problem, bounds,
                                     {minimum.cost, std::min(kFirstWidth, effort.max_labels)}));
  if (minimum.cost < kWithoutLimit) {
    for (CompletionBound& bound : bounds.cost) bound = refined(problem, bound, minimum.chosen);
  }
  minimum.lower_bound = least_total(problem, bounds);
  for (const size_t labels : {std::min(kNarrowWidth, effort.max_labels), effort.max_labels}) {
    if (effort.enough && minimum.cost <= *effort.enough) break;
    if (effort.enough && minimum.lower_bound > *effort.enough) break;
    const bool close = minimum.cost - minimum.lower_bound <= kClose * minimum.lower_bound;
    Found found =
        search_labels(problem, bounds, {minimum.cost, labels, close && labels > kNarrowWidth});
    if (found.gave_up) break;
    const double discarded = found.discarded;
    take_better(minimum, std::move(found));
    minimum.lower_bound = std::max(minimum.lower_bound, std::min(minimum.cost, discarded));
    if (discarded == kWithoutLimit || labels == effort.max_labels) break;
  }
  return minimum;
}

/// Whatever holds the least, where the error is not limited.
std::vector<size_t> least_held(const Problem& problem) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < problem.blocks.size(); ++i) {
    const auto least = std::min_element(problem.blocks[i].begin(), problem.blocks[i].end(),
                                        [](const ReachableChoice& a, const ReachableChoice& b) {
                                          return a.held_bytes < b.held_bytes;
                                        });
    chosen.push_back(static_cast<size_t>(least - problem.blocks[i].begin()));
  }
  return chosen;
}

/// The selection of the least error; an exact search however long it takes, unless it finds one
/// within the limit or shows that there is none.
Minimum minimize_error(const Problem& problem) {
  return minimize(problem.with_error_as_cost(),
                  {std::numeric_limits<size_t>::max(), problem.error_limit}, {});
}

Solution solution_of(const std::vector<Block>& blocks, std::vector<size_t> chosen) {
  Solution solution;
  solution.chosen = std::move(chosen);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Choice& c = blocks[i][solution.chosen[i]];
    solution.peak_bytes = std::max(solution.peak_bytes, solution.held_bytes + c.window_bytes);
    solution.held_bytes += c.held_bytes;
    solution.cost_ns += c.cost_ns;
    solution.error_squared += c.error_squared;
  }
  return solution;
}

/// Positions among a problem's options as indices of choices.
std::vector<size_t> indices(const Problem& problem, std::vector<size_t> chosen) {
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = problem.blocks[i][chosen[i]].index;
  return chosen;
}

std::optional<Solution> solve_reduced(const Reduced& reduced, const Limits& limits,
                                      size_t max_labels) {
  const std::optional<Problem> problem = reduced.within(limits);
  if (!problem) return std::nullopt;
  std::vector<size_t> incumbent;
  if (problem->limits_error()) {
    Minimum error = minimize_error(*problem);
    if (error.cost > problem->error_limit) return std::nullopt;
    incumbent = std::move(error.chosen);
  }
  Minimum minimum = minimize(*problem, {std::max<size_t>(max_labels, 1)}, std::move(incumbent));
  return solution_of(reduced.blocks(), indices(*problem, std::move(minimum.chosen)));
}

/// Some selection within the limits, whatever it costs.
std::optional<Solution> any_within(const Reduced& reduced, const Limits& limits) {
  const std::optional<Problem> problem = reduced.within(limits);
  if (!problem) return std::nullopt;
  if (!problem->limits_error()) {
    return solution_of(reduced.blocks(), indices(*problem, least_held(*problem)));
  }
  Minimum error = minimize_error(*problem);
  if (error.cost > problem->error_limit) return std::nullopt;
  return solution_of(reduced.blocks(), indices(*problem, std::move(error.chosen)));
}

}  // namespace

std::optional<Solution> solve(const std::vector<Block>& blocks, const Limits& limits,
                              size_t max_labels) {
  return solve_reduced(Reduced(blocks), limits, max_labels);
}

int64_t smallest_peak(const std::vector<Block>& blocks, const Limits& limits) {
  const Reduced reduced(blocks);
  Limits tried = limits;
  tried.peak_bytes = kNever;
  std::optional<Solution> within = any_within(reduced, tried);
  if (!within) return kNever;
  int64_t enough = within->peak_bytes;
  int64_t too_little = -1;
  while (enough - too_little > 1) {
    tried.peak_bytes = too_little + (enough - too_little) / 2;
    within = any_within(reduced, tried);
    if (within) enough = within->peak_bytes;
    if (!within) too_little = tried.peak_bytes;
  }
  return enough;
}

}  // namespace noisemark::memopt::plan
