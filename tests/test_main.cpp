#include <gtest/gtest.h>

#include "tests/run_tests.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  noisemark::test::run_tests();
}
