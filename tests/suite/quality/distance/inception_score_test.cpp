#include "suite/quality/distance/inception_score.h"

#include <ATen/ops/eye.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/suite/io/scratch.h"
#include "tests/suite/quality/distance/gaussians.h"

namespace noisemark::suite::test {
namespace {

TEST(InceptionScore, of_logits_that_tell_nothing_is_1) {
  const InceptionScore found = inception_score(at::zeros({100, 10}, doubles()));
  EXPECT_NEAR(found.mean, 1, 1e-12);
  EXPECT_NEAR(found.standard_deviation, 0, 1e-12);
  EXPECT_EQ(found.splits, 10);
}

/// Certain of its class, and every class equally often: as many as there are classes. Logits so
/// large that the other probabilities are 0.
TEST(InceptionScore, of_certain_and_even_logits_is_the_number_of_classes) {
  const at::Tensor logits = (at::eye(8, doubles()) * 5000).repeat({20, 1});
  EXPECT_NEAR(inception_score(logits, 4).mean, 8, 1e-9);
  EXPECT_NEAR(
      inception_score((at::eye(8, doubles()) * 5000).slice(0, 0, 1).repeat({20, 1}), 4).mean, 1,
      1e-9);
}

TEST(InceptionScore, deals_samples_to_the_splits_in_the_given_order) {
  // Two classes, one after the other: two splits see one class each, dealt alternately both.
  const at::Tensor logits = (at::eye(2, doubles()) * 100).repeat_interleave(10, 0);
  EXPECT_NEAR(inception_score(logits, 2).mean, 1, 1e-9);
  std::vector<int64_t> alternately;
  for (int64_t i = 0; i < 10; ++i) alternately.insert(alternately.end(), {i, 10 + i});
  EXPECT_NEAR(inception_score(logits, 2, alternately).mean, 2, 1e-9);
}

TEST(InceptionScore, takes_parts_of_nearly_one_size) {
  const InceptionScore found = inception_score(normals(1, 23, 5), 4);
  double mean = 0;
  for (const auto& [begin, end] :
       {std::pair(0, 5), std::pair(5, 11), std::pair(11, 17), std::pair(17, 23)}) {
    mean += inception_score(normals(1, 23, 5).slice(0, begin, end), 1).mean / 4;
  }
  EXPECT_NEAR(found.mean, mean, 1e-12);
}

TEST(InceptionScore, refuses_fewer_samples_than_splits) {
  const auto [code, message] = outcome([] { (void)inception_score(normals(1, 9, 5)); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("10 of 9 samples"), std::string::npos) << message;
}

}  // namespace
}  // namespace noisemark::suite::test
