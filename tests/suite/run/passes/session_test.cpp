#include "suite/run/passes/session.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "reports/base/error.h"

namespace noisemark::suite {
namespace {

constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";

class Deterministic : public testing::Test {
 protected:
  void SetUp() override { unsetenv(kWorkspace); }
  void TearDown() override {
    unsetenv(kWorkspace);
    set_deterministic(false);
  }
};

TEST_F(Deterministic, refuses_operators_that_do_not_repeat_instead_of_warning) {
  set_deterministic(true);
  const at::Context& context = at::globalContext();
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_FALSE(context.benchmarkCuDNN());
  EXPECT_THROW(at::Context::alertNotDeterministic("an operator"), c10::Error);
}

TEST_F(Deterministic, is_taken_back) {
  set_deterministic(true);
  set_deterministic(false);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicCuDNN());
}

TEST_F(Deterministic, gives_cublas_a_workspace_that_repeats) {
  choose_cublas_workspace();
  EXPECT_STREQ(std::getenv(kWorkspace), ":4096:8");
  EXPECT_NO_THROW(require_cublas_workspace());
}

TEST_F(Deterministic, keeps_the_workspace_of_the_environment_and_refuses_one_that_does_not_repeat) {
  setenv(kWorkspace, ":16:8", 1);
  choose_cublas_workspace();
  EXPECT_STREQ(std::getenv(kWorkspace), ":16:8");
  EXPECT_NO_THROW(require_cublas_workspace());
  setenv(kWorkspace, ":4096:2", 1);
  choose_cublas_workspace();
  try {
    require_cublas_workspace();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_STREQ(error.what(),
                 "--deterministic: CUBLAS_WORKSPACE_CONFIG: :4096:2 (:4096:8 or :16:8)");
  }
}

}  // namespace

}  // namespace noisemark::suite
