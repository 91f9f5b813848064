#include "suite/quality/distance/precision_recall.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tests/suite/io/scratch.h"
#include "tests/suite/quality/distance/gaussians.h"

namespace noisemark::suite::test {
namespace {

TEST(PrecisionRecall, of_a_set_and_itself_are_1) {
  const at::Tensor x = normals(1, 60, 5);
  const PrecisionRecall found = precision_recall(x, x);
  EXPECT_EQ(found.precision_frac, 1);
  EXPECT_EQ(found.recall_frac, 1);
  EXPECT_EQ(found.neighbours, 3);
}

TEST(PrecisionRecall, of_sets_that_are_far_apart_are_0) {
  const PrecisionRecall found = precision_recall(normals(1, 60, 5), normals(2, 40, 5) + 100);
  EXPECT_EQ(found.precision_frac, 0);
  EXPECT_EQ(found.recall_frac, 0);
}

/// Two clusters of real samples, of which one was generated: all that was is real, and half of what
/// is real was.
TEST(PrecisionRecall, tell_a_lost_mode_from_a_wrong_one) {
  const at::Tensor left = normals(1, 40, 3);
  const at::Tensor both = at::cat({left, normals(2, 40, 3) + 1000});
  const PrecisionRecall lost = precision_recall(both, left);
  EXPECT_EQ(lost.precision_frac, 1);
  EXPECT_EQ(lost.recall_frac, 0.5);
  const PrecisionRecall invented = precision_recall(left, both);
  EXPECT_EQ(invented.precision_frac, 0.5);
  EXPECT_EQ(invented.recall_frac, 1);
}

/// On a line 0, 1, 2, 3, 4, ... with k = 1 every ball reaches 1 to either side, its end included;
/// samples half way lie in balls, one at -1.5 does not.
TEST(PrecisionRecall, follow_from_the_nearest_neighbours_on_a_line) {
  const at::Tensor real = at::linspace(0, 9, 10, doubles()).view({10, 1});
  const at::Tensor generated = at::tensor({0.5, 3.5, -1.0, -1.5}, doubles()).view({4, 1});
  const PrecisionRecall found = precision_recall(real, generated, 1);
  EXPECT_EQ(found.precision_frac, 0.75);
  // 0.5 reaches 1.5 far and covers 0 to 2; 3.5 reaches 3 far and covers 1 to 6; the others none.
  EXPECT_EQ(found.recall_frac, 0.7);
}

TEST(PrecisionRecall, refuse_sets_of_at_most_k_samples) {
  const auto [code, message] =
      outcome([] { (void)precision_recall(normals(1, 10, 2), normals(1, 3, 2)); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_EQ(message, "precision and recall: samples: 10 and 3 (more than k = 3)");
  EXPECT_EQ(outcome([] { (void)precision_recall(normals(1, 10, 2), normals(1, 10, 3)); }).first,
            ExitCode::kBadInput);
  EXPECT_EQ(outcome([] { (void)precision_recall(normals(1, 10, 2), normals(1, 10, 2), 0); }).first,
            ExitCode::kBadInput);
}

}  // namespace
}  // namespace noisemark::suite::test
