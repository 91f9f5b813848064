#include <gtest/gtest.h>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "tests/run_tests.h"

/// The main of tests that look at memory: both replacements must be in place before LibTorch works.
int main(int argc, char** argv) {
  noisemark::memopt::install_tracking_allocator();
  noisemark::memopt::install_saved_tensor_engine();
  testing::InitGoogleTest(&argc, argv);
  noisemark::test::run_tests();
}
