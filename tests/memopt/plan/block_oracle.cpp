#include "tests/memopt/plan/block_oracle.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace noisemark::memopt::plan::test {
namespace {

/// Computes it from its definition, without the solver's help.
bool is_dominated(const Block& block, size_t index) {
  const auto figures = [](const Choice& c) {
    return std::tie(c.held_bytes, c.window_bytes, c.cost_ns, c.error_squared);
  };
  const Choice& b = block[index];
  for (size_t i = 0; i < block.size(); ++i) {
    const Choice& a = block[i];
    const bool no_worse = a.held_bytes <= b.held_bytes && a.window_bytes <= b.window_bytes &&
                          a.cost_ns <= b.cost_ns && a.error_squared <= b.error_squared;
    if (no_worse && (figures(a) != figures(b) || i < index)) return true;
  }
  return false;
}

Solution selection(const std::vector<Block>& blocks, const std::vector<size_t>& chosen) {
  Solution s;
  s.chosen = chosen;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Choice& c = blocks[i][chosen[i]];
    s.peak_bytes = std::max(s.peak_bytes, s.held_bytes + c.window_bytes);
    s.held_bytes += c.held_bytes;
    s.cost_ns += c.cost_ns;
    s.error_squared += c.error_squared;
  }
  return s;
}

bool within(const Solution& s, const Limits& limits) {
  return s.peak_bytes <= limits.peak_bytes && s.held_bytes <= limits.held_bytes &&
         s.error_squared <= limits.error_squared;
}

/// The next selection in the order of the indices, the last block's fastest.
bool advance(std::vector<size_t>& chosen, const std::vector<Block>& blocks) {
  for (size_t i = chosen.size(); i-- > 0;) {
    if (++chosen[i] < blocks[i].size()) return true;
    chosen[i] = 0;
  }
  return false;
}

}  // namespace

int64_t Draws::integer(int64_t low, int64_t high) {
  const auto count = static_cast<uint64_t>(high - low) + 1;
  return low + static_cast<int64_t>(generator_() % count);
}

double Draws::fraction() {
  return std::ldexp(static_cast<double>(generator_() >> 11U), -53);
}

std::vector<Block> random_blocks(Draws& draws, const Shape& shape) {
  std::vector<Block> blocks(
      static_cast<size_t>(draws.integer(1, static_cast<int64_t>(shape.most_blocks))));
  for (Block& block : blocks) block.emplace_back();
  for (size_t spare = shape.most_choices - blocks.size(); spare > 0; --spare) {
    const int64_t block = draws.integer(0, static_cast<int64_t>(blocks.size()));
    if (block < static_cast<int64_t>(blocks.size())) {
      blocks[static_cast<size_t>(block)].emplace_back();
    }
  }
  for (Block& block : blocks) {
    for (Choice& choice : block) {
      choice.held_bytes = draws.integer(0, shape.most_figure);
      choice.window_bytes = draws.integer(0, 2 * shape.most_figure);
      const auto cost = static_cast<double>(draws.integer(0, shape.most_figure));
      choice.cost_ns = shape.whole_costs ? cost : cost * draws.fraction();
      choice.error_squared =
          static_cast<double>(std::max<int64_t>(0, draws.integer(-shape.most_figure, 3)));
    }
  }
  return blocks;
}

Limits random_limits(Draws& draws, const std::vector<Block>& blocks) {
  int64_t held = 0;
  int64_t window = 0;
  for (const Block& block : blocks) {
    int64_t most = 0;
    for (const Choice& c : block) {
      most = std::max(most, c.held_bytes);
      window = std::max(window, c.window_bytes);
    }
    held += most;
  }
  Limits limits;
  if (draws.integer(0, 3) > 0) limits.peak_bytes = draws.integer(-1, held + window);
  if (draws.integer(0, 2) == 0) limits.held_bytes = draws.integer(-1, held);
  if (draws.integer(0, 1) == 0) {
    limits.error_squared =
        static_cast<double>(draws.integer(-1, static_cast<int64_t>(blocks.size())));
  }
  return limits;
}

std::vector<Solution> every_selection(const std::vector<Block>& blocks, const Limits& limits) {
  std::vector<Solution> selections;
  std::vector<size_t> chosen(blocks.size(), 0);
  do {
    bool allowed = true;
    for (size_t i = 0; i < blocks.size(); ++i) {
      allowed = allowed && !is_dominated(blocks[i], chosen[i]);
    }
    Solution s = selection(blocks, chosen);
    if (allowed && within(s, limits)) selections.push_back(std::move(s));
  } while (advance(chosen, blocks));
  return selections;
}

std::optional<Solution> best_selection(const std::vector<Block>& blocks, const Limits& limits) {
  const std::vector<Solution> all = every_selection(blocks, limits);
  if (all.empty()) return std::nullopt;
  return *std::min_element(all.begin(), all.end(), [](const Solution& a, const Solution& b) {
    return std::tie(a.cost_ns, a.held_bytes, a.error_squared, a.chosen) <
           std::tie(b.cost_ns, b.held_bytes, b.error_squared, b.chosen);
  });
}

}  // namespace noisemark::memopt::plan::test
