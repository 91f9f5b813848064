#include "reports/compare/compare.h"

#include <gtest/gtest.h>

#include "tests/reports/compare/runs.h"

namespace noisemark::reports {
namespace {

TEST(Since, tells_speed_memory_and_loss_beside_the_medians_of_earlier_runs) {
  const Side base = test::side("old", {16, 10, 17});
  Side now = test::side("new", {20}, [](Result& result, size_t) {
    result.run_id = "fedcba9876543210";
    result.memory.peak_bytes += 1 << 20;
  });
  const std::string words = since_words(base, now.runs.front());
  EXPECT_TRUE(words.starts_with(
      "throughput 20.00 images/s, was 16.00 images/s (25.0 % more); peak memory "))
      << words;
  EXPECT_NE(words.find("; validation loss 0.0931 as before; "), std::string::npos) << words;
  EXPECT_TRUE(words.ends_with("; BASE is old, 3 runs, of which these are medians")) << words;
}

TEST(Since, says_why_there_is_nothing_to_tell) {
  const Side base = test::side("old", {16});
  EXPECT_EQ(since_words(base, base.runs.front()), "old is this run");
  Side now = test::side("new", {20});
  now.runs.front().result.run_id = "fedcba9876543210";
  now.runs.front().result.identity.mode = "echo";
  EXPECT_EQ(since_words(base, now.runs.front()),
            "old has no run of " + cell_name(now.runs.front().result.identity));
}

TEST(Since, says_that_another_machine_is_not_comparable) {
  const Side base = test::side("old", {16});
  Side now = test::side("new", {20});
  now.runs.front().result.run_id = "fedcba9876543210";
  now.runs.front().result.identity.threads = 64;
  const std::string words = since_words(base, now.runs.front());
  EXPECT_TRUE(words.starts_with("BASE is not comparable (")) << words;
}

}  // namespace
}  // namespace noisemark::reports
