#include <gtest/gtest.h>

#include <algorithm>

#include "suite/run/run.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

namespace noisemark::suite {
namespace {

TEST(Run, has_the_same_losses_with_every_number_of_loader_threads) {
  const test::TemporaryFolder folder;
  const auto run = [&](const std::string& threads) {
    const auto out = folder.path() / threads;
    const auto arguments = test::with(test::timed_only(out), {"--loader-threads", threads});
    const test::Finished finished = test::run_noisemark(arguments);
    EXPECT_EQ(finished.code, 0) << finished.both();
    return test::result_in(out);
  };
  const reports::Result one = run("1");
  const reports::Result three = run("3");
  EXPECT_EQ(one.protocol.loader_threads, 1);
  EXPECT_EQ(three.protocol.loader_threads, 3);
  EXPECT_EQ(three.samples.loss, one.samples.loss);
  EXPECT_EQ(three.determinism.loss_trace_sha256, one.determinism.loss_trace_sha256);
  EXPECT_EQ(three.identity.definition_sha256, one.identity.definition_sha256);
}

TEST(ChildRun, gets_the_number_of_loader_threads) {
  RunOptions options;
  options.loader_threads = 5;
  const auto arguments = child_arguments(options, {}, "out");
  const auto flag = std::find(arguments.begin(), arguments.end(), "--loader-threads");
  ASSERT_NE(flag, arguments.end());
  EXPECT_EQ(*(flag + 1), "5");
}

}  // namespace
}  // namespace noisemark::suite
