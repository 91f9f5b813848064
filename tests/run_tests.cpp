#include "tests/run_tests.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace noisemark::test {

namespace {

int exit_code_of_tests() {
  const int failed = RUN_ALL_TESTS();
  if (failed != 0 || testing::GTEST_FLAG(list_tests)) return failed;
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  if (tests.test_to_run_count() == 0) {
    std::puts("no test was selected");
    return 1;
  }
  return tests.skipped_test_count() == tests.test_to_run_count() ? 77 : 0;
}

}  // namespace

int exit_code_without_gpu() {
  std::puts("no GPU here");
  const char* required = std::getenv("NOISEMARK_REQUIRE");
  const std::string words = std::string(",") + (required == nullptr ? "" : required) + ",";
  return words.find(",cuda,") != std::string::npos ? 1 : 77;
}

void run_tests() {
  const int code = exit_code_of_tests();
  (void)std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace noisemark::test
