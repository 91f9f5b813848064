#include <gtest/gtest.h>

#include <cstdlib>

// Suites of every kind, some of which fail: run by suites_test.sh, never by ctest itself.
namespace {

TEST(Mixed, passes) {}
TEST(Mixed, is_skipped) {
  GTEST_SKIP() << "nothing to see";
}

TEST(Idle, is_skipped) {
  GTEST_SKIP() << "nothing to see";
}
TEST(Idle, is_skipped_too) {
  GTEST_SKIP() << "nothing to see";
}

TEST(Red, is_skipped) {
  GTEST_SKIP() << "nothing to see";
}
TEST(Red, fails) {
  FAIL() << "on purpose";
}
TEST(Red, runs_after_the_failure) {}

TEST(Crash, leaves_at_once) {
  std::abort();
}

TEST(Split, one) {}
TEST(Split, other) {
  GTEST_SKIP() << "nothing to see";
}

template <typename T>
class Typed : public testing::Test {};
using Types = testing::Types<int, float, double>;
TYPED_TEST_SUITE(Typed, Types);
TYPED_TEST(Typed, passes) {}

class Valued : public testing::TestWithParam<const char*> {};
TEST_P(Valued, passes) {}
INSTANTIATE_TEST_SUITE_P(Some, Valued, testing::Values("a;b", "[c", "# d"));

}  // namespace
