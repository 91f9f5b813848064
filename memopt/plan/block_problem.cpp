#include "memopt/plan/block_problem.h"

#include <algorithm>
#include <cmath>
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

double most_error(const std::vector<std::vector<Option>>& blocks) {
  double sum = 0;
  for (const auto& options : blocks) {
    double most = 0;
    for (const Option& option : options) most = std::max(most, option.error_squared);
    sum += most;
  }
  return sum;
}

bool dominates(const Choice& a, const Choice& b) {
  return a.held_bytes <= b.held_bytes && a.window_bytes <= b.window_bytes &&
         a.cost_ns <= b.cost_ns && a.error_squared <= b.error_squared;
}

/// Whether choice `index` is beaten, or equalled by an earlier one.
bool dominated(const Block& block, size_t index) {
  for (size_t i = 0; i < block.size(); ++i) {
    if (i == index || !dominates(block[i], block[index])) continue;
    if (i < index || !dominates(block[index], block[i])) return true;
  }
  return false;
}

int64_t most_before(const std::vector<Option>& options) {
  int64_t most = -1;
  for (const Option& option : options) most = std::max(most, option.most_before_bytes);
  return most;
}

/// Removes what asks for less than the earlier blocks must hold; returns the least held after.
int64_t drop_unreachable(std::vector<Option>& options, int64_t least_before) {
  std::erase_if(options, [&](const Option& o) { return o.most_before_bytes < least_before; });
  int64_t least = kMostBytes;
  for (const Option& option : options) least = std::min(least, least_before + option.held_bytes);
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
    for (Option& option : options) option.cost = std::exchange(option.error_squared, 0);
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

std::vector<size_t> undominated(const Block& block) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < block.size(); ++i) {
    if (!dominated(block, i)) kept.push_back(i);
  }
  return kept;
}

}  // namespace noisemark::memopt::plan
