#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memopt/plan/block_program.h"

namespace noisemark::memopt::plan {

/// A choice that fits at least one selection within the byte limits.
struct Option {
  int64_t held_bytes = 0;
  double cost = 0;
  double error_squared = 0;
  int64_t most_before_bytes = 0;  ///< the most that earlier blocks may hold where it is taken
  size_t index = 0;               ///< among the choices of its block
};

/// The blocks reduced to what can be taken, with the byte limits turned into ranges of what is held
/// before each block. Within those ranges some completion always fits, as far as bytes go.
struct Problem {
  std::vector<std::vector<Option>> blocks;  ///< each in the order of `index`, none empty
  std::vector<int64_t> least_before_bytes;  ///< per block
  int64_t most_held_bytes = 0;              ///< at the end of forward
  double error_limit = 0;                   ///< infinity when no selection can exceed it

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

  /// Empty when no selection is within the byte limits. Throws std::invalid_argument for an error
  /// limit that is not a number.
  [[nodiscard]] std::optional<Problem> within(const Limits& limits) const;
  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }

 private:
  const std::vector<Block>& blocks_;
  std::vector<std::vector<size_t>> kept_;  ///< indices of choices, per block
  int64_t most_held_bytes_ = 0;
};

/// Indices of the choices that no other one of the block beats or equals; of equals, the first.
[[nodiscard]] std::vector<size_t> undominated(const Block& block);

}  // namespace noisemark::memopt::plan
