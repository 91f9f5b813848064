#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "tests/run_tests.h"

/// The main of tests that need a GPU: without one they are skipped (77), or fail where the
/// environment says that there must be one. As in the program, both replacements are in place
/// before LibTorch works: without the engine no memory mode would have a hook.
int main(int argc, char** argv) {
  noisemark::memopt::install_tracking_allocator();
  noisemark::memopt::install_saved_tensor_engine();
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests) || at::hasCUDA()) noisemark::test::run_tests();
  return noisemark::test::exit_code_without_gpu();
}
