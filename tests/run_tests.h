#pragma once

namespace noisemark::test {

/// Runs the tests that the command line selects, after testing::InitGoogleTest, and ends the
/// process with the exit code: 0 when at least one passed and none failed, 77 when every one was
/// skipped, 1 otherwise, also when none was selected. GoogleTest alone returns 0 for tests that did
/// nothing. The process ends as that of leave() in reports/base/streams.h.
[[noreturn]] void run_tests();

/// Says that there is no GPU. Returns the exit code of tests that need one: 77, which is a skip, or
/// 1 where NOISEMARK_REQUIRE asks for a GPU.
[[nodiscard]] int exit_code_without_gpu();

}  // namespace noisemark::test
