#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace noisemark::memopt::plan {

/// One way to treat all saved storages of a block.
struct Choice {
  int64_t held_bytes = 0;    ///< from the end of the block's forward to the start of its backward
  int64_t window_bytes = 0;  ///< the most that is live at once while the block's own forward or
                             ///< backward runs, beyond what earlier blocks hold
  double cost_ns = 0;        ///< time that a step is longer
  double error_squared = 0;  ///< part of the squared relative error of the gradient
};

/// A contiguous part of the forward pass whose backward is contiguous too. It has at least one
/// choice.
using Block = std::vector<Choice>;

struct Limits {
  int64_t peak_bytes = std::numeric_limits<int64_t>::max();
  int64_t held_bytes = std::numeric_limits<int64_t>::max();  ///< sum over blocks
  double error_squared = std::numeric_limits<double>::infinity();
};

struct Solution {
  std::vector<size_t> chosen;  ///< index into each block's choices
  int64_t peak_bytes = 0;      ///< max over blocks of (held before it + its window)
  int64_t held_bytes = 0;
  double cost_ns = 0;
  double error_squared = 0;
};

/// All functions of this header are pure, and throw std::invalid_argument for a block without
/// choices, figures that are negative or not finite, bytes whose sums do not fit 63 bits, and an
/// error limit that is not a number. No blocks at all are a selection that costs nothing.

/// The cheapest selection within the limits: blocks in forward order, whose backward runs in
/// reverse, so that while a block's window is open exactly the earlier blocks hold their bytes.
/// Dynamic program over blocks with Pareto-optimal (held, cost, error) labels, of which those are
/// dropped that a Lagrangian bound proves useless. It is exact where at most `max_labels` are left
/// after each block; beyond, labels are thinned, and the limits still hold. Exact solutions are
/// monotone: with a smaller budget the cost never falls and the peak never rises. A choice that
/// another one of its block beats or equals in all four figures is not taken. Ties: fewer held
/// bytes, then less error, then the smaller indices. It is empty when nothing fits.
[[nodiscard]] std::optional<Solution> solve(const std::vector<Block>& blocks, const Limits& limits,
                                            size_t max_labels);

/// The smallest peak_bytes that any selection within the other limits reaches; the largest int64
/// when no selection is within those.
[[nodiscard]] int64_t smallest_peak(const std::vector<Block>& blocks, const Limits& limits = {});

}  // namespace noisemark::memopt::plan
