#pragma once

#include <optional>
#include <random>
#include <vector>

#include "memopt/plan/block_program.h"

namespace noisemark::memopt::plan::test {

/// Uniform integers from a generator whose sequence the standard fixes.
class Draws {
 public:
  explicit Draws(uint64_t seed) : generator_(seed) {}
  /// Draws from [low, high].
  int64_t integer(int64_t low, int64_t high);
  /// Draws from [0, 1).
  double fraction();

 private:
  std::mt19937_64 generator_;
};

struct Shape {
  size_t most_blocks = 6;
  size_t most_choices = 16;  ///< the most choices of all blocks together
  int64_t most_figure = 6;   ///< small figures make many ties
  bool whole_costs = true;
};

/// Figures are small integers, so that sums are exact in any order; costs may be fractions.
std::vector<Block> random_blocks(Draws& draws, const Shape& shape);

/// Limits of which each may be absent, loose, tight or impossible.
Limits random_limits(Draws& draws, const std::vector<Block>& blocks);

/// Every selection of undominated choices that is within the limits; lower bounds are left 0.
std::vector<Solution> every_selection(const std::vector<Block>& blocks, const Limits& limits);

/// The first by cost, held bytes, error and indices.
std::optional<Solution> best_selection(const std::vector<Block>& blocks, const Limits& limits);

}  // namespace noisemark::memopt::plan::test
