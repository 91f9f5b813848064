#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memopt/plan/block_program.h"

namespace noisemark::memopt::plan {

/// A choice that fits at least one selection within the byte limits.
struct ReachableChoice {
  int64_t held_bytes = 0;
  double cost = 0;
  double error_squared = 0;
  int64_t most_before_bytes = 0;  ///< the most that earlier blocks may hold where it is taken
  size_t index = 0;               ///< index among the choices of its block
};

/// The blocks reduced to what can be taken, with the byte limits turned into ranges of what is held
/// before each block. Within those ranges some completion always fits, as far as bytes go.
struct Problem {
  std::vector<std::vector<ReachableChoice>> blocks;  ///< each in the order of `index`, none empty
  std::vector<int64_t> least_before_bytes;           ///< one for each block
  int64_t most_held_bytes = 0;                       ///< at the end of forward
  double error_limit = 0;                            ///< infinity when no selection can exceed it

  [[nodiscard]] bool limits_error() const;
  /// The same with the error in place of the cost, and no limit on it.
  [[nodiscard]] Problem with_error_as_cost() const;
};

/// The blocks without the choices that another one of their block beats or equals.
class Reduced {
 public:
  /// Throws std::invalid_argument for figures that are negative or not finite, a block without
  /// choices, and sums of bytes beyond int64. `blocks` must outlive it.
  explicit Reduced(const std::vector<Block>& blocks);

  /// Returns nothing when no selection is within the byte limits. Throws std::invalid_argument for
  /// an error limit that is not a number.
  [[nodiscard]] std::optional<Problem> within(const Limits& limits) const;
  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }

 private:
  const std::vector<Block>& blocks_;
  std::vector<std::vector<size_t>> kept_;  ///< indices of choices, per block
  int64_t most_held_bytes_ = 0;
};

/// A lower bound of what the blocks from `first` on must add to cost + error_price * error, as a
/// function of the bytes that earlier blocks hold: the Lagrangian dual of the byte limits over a
/// list of prices per byte (Everett 1963; Geoffrion 1974). Each limit is a range of what is held
/// before one choice, and the price before a block may differ from the price after it, which is the
/// multiplier of that range. One pass from the last block to the first takes the best multipliers
/// from the list. Rounding only ever lowers it.
class CompletionBound {
 public:
  /// `prices` in cost per byte, ascending, the first 0.
  CompletionBound(const Problem& problem, std::vector<double> prices, double error_price);

  [[nodiscard]] double operator()(size_t first, int64_t held_before_bytes) const {
    const Line& line = best(first, static_cast<double>(held_before_bytes));
    return line.offset + line.price * static_cast<double>(held_before_bytes);
  }
  /// The price that gives the bound there.
  [[nodiscard]] double price(size_t first, int64_t held_before_bytes) const {
    return best(first, static_cast<double>(held_before_bytes)).price;
  }
  [[nodiscard]] double error_price() const { return error_price_; }
  [[nodiscard]] const std::vector<double>& prices() const { return prices_; }

 private:
  /// Valid everywhere, the best from `from` on.
  struct Line {
    double price = 0;
    double offset = 0;
    double from = 0;
  };

  [[nodiscard]] const Line& best(size_t first, double held_before_bytes) const;
  [[nodiscard]] std::vector<double> offsets_before(const std::vector<ReachableChoice>& options,
                                                   int64_t least_before_bytes,
                                                   const std::vector<double>& after) const;
  void lower_by_rounding(std::vector<double>& offsets) const;
  [[nodiscard]] std::vector<Line> envelope(const std::vector<double>& offsets) const;

  std::vector<double> prices_;
  double error_price_ = 0;
  double cost_scale_ = 0;                 ///< no sum of costs is larger
  double held_scale_ = 0;                 ///< no sum of bytes is larger
  std::vector<std::vector<Line>> lines_;  ///< per block, and one for the end
};

/// The prices that a byte may have: every slope of a block's lower convex hull of cost +
/// error_price * error against what it holds, and against what it lets earlier blocks hold.
/// Ascending.
[[nodiscard]] std::vector<double> byte_prices(const Problem& problem, double error_price);

/// The prices that a unit of error may have at a price per byte: likewise, cost + byte_price * held
/// against error.
[[nodiscard]] std::vector<double> error_prices(const Problem& problem, double byte_price);

/// Returns at most `count` of the ascending values, evenly spread by rank, the first and last among
/// them.
[[nodiscard]] std::vector<double> spread(const std::vector<double>& ascending, size_t count);

}  // namespace noisemark::memopt::plan
