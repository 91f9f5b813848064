#include "reports/base/error.h"

#include <gtest/gtest.h>

#include <vector>

namespace noisemark::reports {
namespace {

const std::vector<std::string> kModes{"none", "mirror", "echo", "gist", "dpr8", "offload"};

TEST(Nearest, counts_edits_and_swaps_of_neighbours) {
  EXPECT_EQ(edit_distance("gist", "gist", 9), 0U);
  EXPECT_EQ(edit_distance("gits", "gist", 9), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting", 9), 3U);
  EXPECT_EQ(edit_distance("", "abc", 9), 3U);
  EXPECT_EQ(edit_distance("ECHO", "echo", 9), 0U);
}

TEST(Nearest, stops_at_the_limit) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 3U);
  EXPECT_EQ(edit_distance("aaaaaaaa", "bbbbbbbb", 3), 4U);
  EXPECT_EQ(edit_distance("a", "abcdefgh", 3), 4U);
}

// The bound must not cut off what a swap in the last two letters still repairs.
TEST(Nearest, a_swap_at_the_end_counts_once_at_a_tight_limit) {
  EXPECT_EQ(edit_distance("mirorr", "mirror", 1), 1U);
  EXPECT_EQ(edit_distance("ab", "ba", 1), 1U);
}

TEST(Nearest, finds_what_was_meant) {
  EXPECT_EQ(nearest("gits", kModes), "gist");
  EXPECT_EQ(nearest("Miror", kModes), "mirror");
  EXPECT_EQ(nearest("dpr9", kModes), "dpr8");
}

TEST(Nearest, suggests_nothing_far_off) {
  EXPECT_EQ(nearest("quantize", kModes), std::nullopt);
  EXPECT_EQ(nearest("xy", kModes), std::nullopt);
  EXPECT_EQ(nearest("", kModes), std::nullopt);
}

TEST(Nearest, lists_all_names_after_the_nearest) {
  const std::vector<std::string> two{"cpu", "gpu"};
  EXPECT_EQ(accepted_names("cpuu", two), "nearest \"cpu\"; one of: cpu, gpu");
  EXPECT_EQ(accepted_names("everything", two), "one of: cpu, gpu");
}

}  // namespace
}  // namespace noisemark::reports
