#include "memopt/plan/block_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/memopt/plan/block_oracle.h"

namespace noisemark::memopt::plan {
namespace {

using test::best_selection;
using test::Draws;
using test::every_selection;
using test::random_blocks;
using test::random_limits;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr uint64_t kProblems = 400;
constexpr size_t kLabels = 1'000;  // enough for an exact answer to each problem of this file

std::optional<Solution> solve(const std::vector<Block>& blocks, const Limits& limits) {
  return plan::solve(blocks, limits, kLabels);
}

/// Problems of every kind, each with a few limits.
template <typename Check>
void for_random_problems(const Check& check) {
  for (uint64_t seed = 0; seed < kProblems; ++seed) {
    Draws draws(seed);
    test::Shape shape;
    shape.most_figure = seed % 4 == 0 ? 2 : 20;
    shape.whole_costs = seed % 2 == 0;
    const std::vector<Block> blocks = random_blocks(draws, shape);
    for (int i = 0; i < 5; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", limits " + std::to_string(i));
      check(blocks, i == 0 ? Limits{} : random_limits(draws, blocks));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

void expect_same(const Solution& found, const Solution& expected) {
  EXPECT_EQ(found.chosen, expected.chosen);
  EXPECT_EQ(found.peak_bytes, expected.peak_bytes);
  EXPECT_EQ(found.held_bytes, expected.held_bytes);
  EXPECT_EQ(found.cost_ns, expected.cost_ns);
  EXPECT_EQ(found.error_squared, expected.error_squared);
}

/// A large problem as planning meets it: choices trade bytes for time at a falling rate, and
/// windows are somewhat more than what a block holds.
std::vector<Block> large_blocks(uint64_t seed) {
  Draws draws(seed);
  std::vector<Block> blocks(40);
  for (Block& block : blocks) {
    const double size = 64e6 * (0.2 + draws.fraction());
    for (int i = 0; i < 50; ++i) {
      const double part = i == 0 ? 1 : draws.fraction();
      const double window = std::max(part, 0.6 + 0.8 * draws.fraction());
      Choice& choice = block.emplace_back();
      choice.held_bytes = std::llround(size * part);
      choice.window_bytes = std::llround(size * window);
      choice.cost_ns = size * 0.1 * std::pow(1 - part, 1.5) * (0.8 + 0.4 * draws.fraction());
    }
  }
  return blocks;
}

TEST(BlockProgram, finds_what_trying_every_selection_finds) {
  int feasible = 0;
  int infeasible = 0;
  for_random_problems([&](const std::vector<Block>& blocks, const Limits& limits) {
    const auto expected = best_selection(blocks, limits);
    const auto found = solve(blocks, limits);
    ASSERT_EQ(found.has_value(), expected.has_value());
    ++(found ? feasible : infeasible);
    if (!found) return;
    expect_same(*found, *expected);
  });
  EXPECT_GT(feasible, 500);
  EXPECT_GT(infeasible, 200);
}

TEST(BlockProgram, with_too_few_labels_keeps_the_limits) {
  int lost = 0;
  for_random_problems([&](const std::vector<Block>& blocks, const Limits& limits) {
    const auto best = best_selection(blocks, limits);
    for (const size_t labels : {0, 1, 2, 4}) {
      const auto found = solve(blocks, limits, labels);
      ASSERT_EQ(found.has_value(), best.has_value());
      if (!found) continue;
      EXPECT_LE(found->peak_bytes, limits.peak_bytes);
      EXPECT_LE(found->held_bytes, limits.held_bytes);
      EXPECT_LE(found->error_squared, limits.error_squared);
      EXPECT_GE(found->cost_ns, best->cost_ns);
      lost += found->cost_ns > best->cost_ns ? 1 : 0;
    }
  });
  EXPECT_GT(lost, 0) << "no problem was hard enough to lose anything";
}

TEST(BlockProgram, the_smallest_peak_suffices_and_one_byte_less_does_not) {
  int excluded = 0;
  for_random_problems([&](const std::vector<Block>& blocks, Limits limits) {
    limits.peak_bytes = kMost;
    int64_t expected = kMost;
    for (const Solution& s : every_selection(blocks, limits)) {
      expected = std::min(expected, s.peak_bytes);
    }
    EXPECT_EQ(smallest_peak(blocks, limits), expected);
    excluded += expected == kMost ? 1 : 0;
    if (expected == kMost) return;
    limits.peak_bytes = expected;
    EXPECT_TRUE(solve(blocks, limits).has_value());
    limits.peak_bytes = expected - 1;
    EXPECT_FALSE(solve(blocks, limits).has_value());
  });
  EXPECT_GT(excluded, 0);
}

// An independent dynamic program over every sum of bytes and errors, which needs no dominance, no
// bounds and no labels.
double least_cost_by_table(const std::vector<Block>& blocks, const Limits& limits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto errors = static_cast<size_t>(limits.error_squared) + 1;
  const auto bytes = static_cast<size_t>(limits.held_bytes) + 1;
  std::vector<double> table(bytes * errors, kInfinity);
  table[0] = 0;
  for (const Block& block : blocks) {
    std::vector<double> next(bytes * errors, kInfinity);
    for (const Choice& c : block) {
      const auto held = static_cast<size_t>(c.held_bytes);
      const auto error = static_cast<size_t>(c.error_squared);
      for (size_t h = 0; h + held < bytes; ++h) {
        if (static_cast<int64_t>(h) + c.window_bytes > limits.peak_bytes) break;
        for (size_t e = 0; e + error < errors; ++e) {
          double& cell = next[(h + held) * errors + e + error];
          cell = std::min(cell, table[h * errors + e] + c.cost_ns);
        }
      }
    }
    table = std::move(next);
  }
  return *std::min_element(table.begin(), table.end());
}

TEST(BlockProgram, agrees_with_a_table_over_all_sums_where_selections_are_too_many_to_try) {
  int feasible = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Draws draws(seed);
    const std::vector<Block> blocks = random_blocks(draws, {30, 300, 12, seed % 2 == 0});
    Limits limits;
    limits.held_bytes = draws.integer(0, 6 * static_cast<int64_t>(blocks.size()));
    limits.peak_bytes = limits.held_bytes + draws.integer(0, 12);
    limits.error_squared = static_cast<double>(draws.integer(0, 20));
    const double expected = least_cost_by_table(blocks, limits);
    const auto found = solve(blocks, limits);
    ASSERT_EQ(found.has_value(), std::isfinite(expected)) << "seed " << seed;
    if (!found) continue;
    ++feasible;
    EXPECT_EQ(found->cost_ns, expected) << "seed " << seed;
  }
  EXPECT_GT(feasible, 30);
}

TEST(BlockProgram, a_smaller_budget_costs_no_less_and_peaks_no_higher) {
  const std::vector<Block> blocks = large_blocks(2);
  const int64_t lowest = smallest_peak(blocks);
  const int64_t highest = solve(blocks, {})->peak_bytes;
  Draws draws(3);
  std::vector<int64_t> budgets;
  for (int i = 0; i < 50; ++i) budgets.push_back(draws.integer(lowest, highest));
  std::sort(budgets.begin(), budgets.end());
  double cost = std::numeric_limits<double>::infinity();
  int64_t peak = 0;
  for (const int64_t budget : budgets) {
    Limits limits;
    limits.peak_bytes = budget;
    const auto found = solve(blocks, limits);
    ASSERT_TRUE(found.has_value());
    EXPECT_LE(found->peak_bytes, budget);
    EXPECT_GE(found->peak_bytes, peak);
    EXPECT_LE(found->cost_ns, cost);
    cost = found->cost_ns;
    peak = found->peak_bytes;
  }
}

TEST(BlockProgram, gives_the_same_answer_every_time) {
  const std::vector<Block> blocks = large_blocks(4);
  Limits limits;
  limits.peak_bytes = smallest_peak(blocks) * 2;
  for (const size_t labels : {size_t{8}, kLabels}) {
    const auto first = solve(blocks, limits, labels);
    const auto second = solve(blocks, limits, labels);
    ASSERT_TRUE(first && second);
    expect_same(*first, *second);
  }
}

TEST(BlockProgram, prefers_fewer_held_bytes_then_less_error_then_smaller_indices) {
  // Windows keep the choices from beating each other.
  const Block fewer = {{4, 0, 1, 0}, {3, 1, 1, 0}};
  EXPECT_EQ(solve({fewer}, {})->chosen, std::vector<size_t>{1});
  const Block less = {{3, 0, 1, 0.5}, {3, 1, 1, 0.25}};
  EXPECT_EQ(solve({less}, {})->chosen, std::vector<size_t>{1});
  const Block split = {{0, 2, 1, 0}, {1, 0, 0, 0}};
  // 0 + 1 and 1 + 0 are equal in everything.
  EXPECT_EQ(solve({split, split}, {2, 1, 0})->chosen, (std::vector<size_t>{0, 1}));
}

TEST(BlockProgram, takes_no_choice_that_another_one_beats_and_the_first_of_equals) {
  const Block block = {{3, 9, 1, 0}, {3, 5, 1, 0}};
  EXPECT_EQ(solve({block}, {})->chosen, std::vector<size_t>{1});
  const Block equals = {{5, 5, 5, 0}, {4, 9, 2, 0}, {4, 9, 2, 0}};
  EXPECT_EQ(solve({equals}, {})->chosen, std::vector<size_t>{1});
}

TEST(BlockProgram, one_block_is_its_cheapest_choice_that_fits) {
  const Block block = {{10, 10, 0, 0}, {5, 8, 2, 0}, {0, 7, 5, 0}};
  EXPECT_EQ(solve({block}, {9})->chosen, std::vector<size_t>{1});
  EXPECT_EQ(solve({block}, {7})->chosen, std::vector<size_t>{2});
  EXPECT_FALSE(solve({block}, {6}).has_value());
}

TEST(BlockProgram, a_window_counts_on_top_of_what_earlier_blocks_hold) {
  const std::vector<Block> blocks = {{{4, 6, 0, 0}}, {{3, 5, 0, 0}}};
  EXPECT_EQ(solve(blocks, {})->peak_bytes, 9);
  EXPECT_EQ(solve({blocks[1], blocks[0]}, {})->peak_bytes, 9);
  EXPECT_EQ(smallest_peak({{{4, 6, 0, 0}}, {{3, 1, 0, 0}}}), 6);
}

TEST(BlockProgram, no_blocks_cost_nothing) {
  const auto nothing = solve({}, {0, 0, 0});
  ASSERT_TRUE(nothing.has_value());
  EXPECT_TRUE(nothing->chosen.empty());
  EXPECT_EQ(nothing->cost_ns, 0);
  EXPECT_EQ(smallest_peak({}), 0);
  EXPECT_FALSE(solve({}, {-1}).has_value());
}

TEST(BlockProgram, sums_near_the_largest_integer_are_exact) {
  const int64_t quarter = int64_t{1} << 61;
  const Block block = {{quarter, quarter, 0, 0}, {1, quarter, 1, 0}};
  const auto all = solve({block, block, block}, {});
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->peak_bytes, 3 * quarter);
  const auto less = solve({block, block, block}, {3 * quarter - 1});
  ASSERT_TRUE(less.has_value());
  EXPECT_EQ(less->peak_bytes, 2 * quarter + 1);
  EXPECT_EQ(less->cost_ns, 1);
  EXPECT_THROW((void)solve({block, block, block, block}, {}), std::invalid_argument);
}

TEST(BlockProgram, refuses_figures_that_mean_nothing) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Choice> bad = {{-1, 0, 0, 0},       {0, -1, 0, 0},  {0, 0, -1, 0},
                                   {0, 0, 0, -1},       {0, 0, nan, 0}, {0, 0, infinity, 0},
                                   {0, 0, 0, infinity}, {0, 0, 0, nan}};
  for (const Choice& choice : bad) {
    EXPECT_THROW((void)solve({{{1, 1, 1, 1}, choice}}, {}), std::invalid_argument);
    EXPECT_THROW((void)smallest_peak({{choice}}), std::invalid_argument);
  }
  EXPECT_THROW((void)solve({Block{}}, {}), std::invalid_argument);
  EXPECT_THROW((void)solve({{{1, 1, 1, 1}}}, {kMost, kMost, nan}), std::invalid_argument);
}

}  // namespace
}  // namespace noisemark::memopt::plan
