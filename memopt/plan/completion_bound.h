#pragma once

#include <cstdint>
#include <vector>

#include "memopt/plan/block_problem.h"

namespace noisemark::memopt::plan {

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
  [[nodiscard]] std::vector<double> offsets_before(const std::vector<Option>& options,
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

/// What a byte may be worth: every slope of a block's lower convex hull of cost + error_price *
/// error against what it holds, and against what it lets earlier blocks hold. Ascending.
[[nodiscard]] std::vector<double> byte_prices(const Problem& problem, double error_price);

/// What a unit of error may be worth at a price per byte: likewise, cost + byte_price * held
/// against error.
[[nodiscard]] std::vector<double> error_prices(const Problem& problem, double byte_price);

/// At most `count` of the ascending values, evenly spread by rank, the first and last among them.
[[nodiscard]] std::vector<double> spread(const std::vector<double>& ascending, size_t count);

}  // namespace noisemark::memopt::plan
