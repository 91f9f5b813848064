#include "memopt/example/training.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace example {
namespace {

constexpr int64_t kMiB = 1 << 20;

/// The outcome of a training that halved its loss and held so many bytes for backward.
Outcome outcome_of(int64_t saved_bytes) {
  Outcome outcome;
  outcome.losses = {at::full({}, 2.0), at::full({}, 1.0)};
  outcome.weights = {at::full({4}, 0.5)};
  outcome.lossless = true;
  outcome.saved_bytes = saved_bytes;
  outcome.peak_saved_bytes = saved_bytes;
  outcome.peak_bytes = 2 * saved_bytes;
  return outcome;
}

Outcome none() {
  return outcome_of(4 * kMiB);
}

Outcome fewer() {
  return outcome_of(2 * kMiB);
}

TEST(Promises, are_kept_by_a_mode_with_the_bits_of_none_in_fewer_bytes) {
  for (const char* mode : {"echo", "gist", "budget:saved=2MiB", "budget:4MiB"}) {
    EXPECT_EQ(broken_promise(mode, fewer(), none()), "") << mode;
  }
}

TEST(Promises, are_broken_by_a_mode_that_holds_more_than_none) {
  Outcome rounded = none();
  rounded.lossless = false;
  EXPECT_EQ(broken_promise("echo", none(), fewer()), "held more memory");
  EXPECT_EQ(broken_promise("echo+dpr8", rounded, fewer()), "held more memory");
}

TEST(Promises, are_broken_by_a_mode_that_holds_more_than_none_at_the_peak) {
  Outcome high = none();
  high.peak_saved_bytes += 1;
  EXPECT_EQ(broken_promise("gist", high, none()), "held more memory at the peak");
  EXPECT_EQ(broken_promise("offload:all", high, none()), "");
  high.peak_saved_bytes *= 2;
  EXPECT_EQ(broken_promise("offload:all", high, none()), "held more memory at the peak");
}

TEST(Promises, of_bytes_are_not_made_by_what_moves_them_to_the_host) {
  for (const char* mode : {"offload:all", "echo+offload"}) {
    EXPECT_EQ(broken_promise(mode, none(), fewer()), "") << mode;
  }
}

TEST(Promises, are_broken_above_a_budget) {
  EXPECT_EQ(broken_promise("budget:saved=1MiB", fewer(), none()), "above its budget");
  EXPECT_EQ(broken_promise("budget:3MiB", fewer(), none()), "above its budget");
}

TEST(Promises, are_broken_by_another_bit_of_a_lossless_mode_and_by_learning_nothing) {
  Outcome other = fewer();
  other.weights = {at::full({4}, 0.25)};
  EXPECT_EQ(broken_promise("echo", other, none()), "not the bits of mode none");
  other.lossless = false;
  EXPECT_EQ(broken_promise("dpr8", other, none()), "");
  other.losses.back() = other.losses.front();
  EXPECT_EQ(broken_promise("dpr8", other, none()), "learned nothing");
}

}  // namespace
}  // namespace example
