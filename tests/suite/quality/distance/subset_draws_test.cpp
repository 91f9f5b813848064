#include "suite/quality/distance/subset_draws.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace noisemark::suite::test {
namespace {

using Numbers = std::vector<int64_t>;

/// numpy.random.RandomState(2020) of numpy 2.4: permutation(10); choice(300, 8, replace=False),
/// then choice(70000, 4, replace=False) of the same state.
TEST(SubsetDraws, of_numpy_are_numpys) {
  EXPECT_EQ(numpy_permutation(2020, 10), (Numbers{2, 4, 9, 1, 5, 7, 6, 3, 8, 0}));
  const DrawSubset draw = numpy_draws(2020);
  EXPECT_EQ(draw(0, 0, 300, 8), (Numbers{248, 192, 185, 204, 75, 283, 110, 294}));
  EXPECT_EQ(draw(0, 1, 70'000, 4), (Numbers{48846, 65115, 55378, 50715}));
}

TEST(SubsetDraws, hold_different_numbers_below_the_total) {
  for (const DrawSubset& draw : {counter_draws(1), numpy_draws(1)}) {
    for (const int64_t count : {0, 1, 50, 100}) {
      const Numbers numbers = draw(3, 1, 100, count);
      EXPECT_EQ(std::set<int64_t>(numbers.begin(), numbers.end()).size(),
                static_cast<size_t>(count));
      for (const int64_t number : numbers) EXPECT_TRUE(number >= 0 && number < 100);
    }
    EXPECT_THROW((void)draw(0, 0, 5, 6), c10::Error);
  }
}

TEST(SubsetDraws, by_counter_depend_on_nothing_drawn_before) {
  const DrawSubset draw = counter_draws(7);
  const Numbers first = draw(0, 0, 1000, 20);
  EXPECT_NE(draw(1, 0, 1000, 20), first);
  EXPECT_NE(draw(0, 1, 1000, 20), first);
  EXPECT_NE(counter_draws(8)(0, 0, 1000, 20), first);
  EXPECT_EQ(draw(0, 0, 1000, 20), first);
}

/// 2000 draws of 3 of 10: each number is expected 600 times, with a deviation of 20.5.
TEST(SubsetDraws, take_every_number_equally_often) {
  for (const DrawSubset& draw : {counter_draws(2), numpy_draws(2)}) {
    Numbers counts(10, 0);
    for (int64_t subset = 0; subset < 2000; ++subset) {
      for (const int64_t number : draw(subset, 0, 10, 3)) ++counts[static_cast<size_t>(number)];
    }
    for (const int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 600, 5 * 20.5);
  }
}

}  // namespace
}  // namespace noisemark::suite::test
