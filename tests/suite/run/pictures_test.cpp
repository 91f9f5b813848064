#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// Real images, where NOISEMARK_CIFAR10 says that there are some.
namespace noisemark::suite {
namespace {

/// The network of the benchmark at its real size, for as few steps as the loss needs to fall.
void expect_to_learn(const std::string& id, int64_t steps) {
  const char* data = std::getenv("NOISEMARK_CIFAR10");
  if (data == nullptr) GTEST_SKIP() << "no images (NOISEMARK_CIFAR10)";
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  const test::Finished run = test::run_noisemark(
      {"run", id, "--data", data, "--device", "cpu", "--no-memory", "--no-profile", "--set",
       "train.batch=4", "--set", "train.steps=" + std::to_string(steps), "--set", "eval.samples=8",
       "--set", "eval.every=0", "--out", out.string()});
  ASSERT_EQ(run.code, 0) << run.both();
  const reports::Result result = test::result_in(out);
  ASSERT_EQ(result.quality.evaluations.size(), 2u);
  EXPECT_LT(result.quality.evaluations.back().loss, result.quality.evaluations.front().loss);
  EXPECT_FALSE(result.provenance.data.empty());
}

TEST(Pictures, make_the_validation_loss_of_lucid_cifar10_fall) {
  expect_to_learn("lucid-cifar10@cpu", 16);
}

TEST(Pictures, make_the_validation_loss_of_ho_cifar10_fall) {
  expect_to_learn("ho-cifar10@cpu", 10);
}

}  // namespace
}  // namespace noisemark::suite
