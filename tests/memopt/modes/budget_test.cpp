#include "memopt/modes/budget.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>
#include <string>

#include "memopt/modes/mode.h"
#include "memopt/modes/mode_grammar.h"

namespace noisemark::memopt {
namespace {

TEST(BudgetSpelling, has_one_canonical_form_for_each_budget) {
  for (const char* spelling : {"budget:2GiB", "budget:512MiB", "budget:saved=96KiB", "budget:77",
                               "budget:2GiB,error=0.01", "budget:saved=77,error=1e-05"}) {
    EXPECT_EQ(make_mode(spelling)->name(), spelling);
  }
}

TEST(BudgetSpelling, is_read_in_any_form_and_named_in_the_canonical_one) {
  EXPECT_EQ(make_mode("budget:1024MiB")->name(), "budget:1GiB");
  EXPECT_EQ(make_mode("budget:1.50MiB")->name(), "budget:1536KiB");
  EXPECT_EQ(make_mode("budget:1GiB,error=1e-2")->name(), "budget:1GiB,error=0.01");
  EXPECT_EQ(make_mode("budget:1GiB,error")->name(), "budget:1GiB,error=0.01");
}

TEST(BudgetSpelling, of_an_error_is_not_lossless) {
  EXPECT_TRUE(make_mode("budget:1GiB")->lossless());
  EXPECT_FALSE(make_mode("budget:1GiB,error=0.01")->lossless());
}

TEST(BudgetSpelling, is_refused_where_it_means_nothing) {
  for (const char* spelling : {"budget:",
                               "budget:2GB",
                               "budget:-1",
                               "budget:0",
                               "budget:0.0MiB",
                               "budget:GiB",
                               "budget:saved",
                               "budget:9999999999GiB",
                               "2GiB",
                               "budget: 2GiB",
                               "budget:1.5",
                               "budget:1.MiB",
                               "budget:.5MiB",
                               "budget:1e3",
                               "budget:20.05 MiB",
                               "budget:1GiB,error=",
                               "budget:1GiB,error=0",
                               "budget:1GiB,error=-1",
                               "budget:1GiB,error=nan",
                               "budget:1GiB,error=2",
                               "budget:1GiB,error=0.1x",
                               "budget:1GiB,",
                               "budget:error=0.1"}) {
    EXPECT_THROW(static_cast<void>(make_mode(spelling)), std::invalid_argument) << spelling;
  }
}

TEST(Bytes, of_a_decimal_count_a_part_of_a_byte_as_one) {
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("20.04MiB"), 21'013'464);  // 20.04 * 2^20 = 21013463.04
  EXPECT_EQ(parse_bytes("0.000000001GiB"), 2);     // 2^30 / 10^9 = 1.07
}

TEST(Bytes, that_are_named_suffice_when_they_are_typed_back) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    // Sizes of every magnitude.
    const auto bytes = static_cast<int64_t>(random() >> (8 + random() % 55)) + 1;
    const std::optional<int64_t> typed = parse_bytes(spell_at_least(bytes));
    ASSERT_TRUE(typed.has_value()) << spell_at_least(bytes);
    EXPECT_GE(*typed, bytes) << spell_at_least(bytes);
    // A hundredth of a unit that fits at least once, and the part of a byte that is made whole.
    EXPECT_LE(*typed, bytes + bytes / 100 + 1) << spell_at_least(bytes);
    EXPECT_EQ(parse_bytes(spell_bytes(bytes)), bytes);
  }
}

}  // namespace
}  // namespace noisemark::memopt
