#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/result/result.h"
#include "tests/suite/process.h"

/// Command lines of runs that take a second.
namespace noisemark::suite::test {

/// A real benchmark cut short: seconds become a fraction of one.
[[nodiscard]] std::vector<std::string> short_run(const std::filesystem::path& out,
                                                 int64_t steps = 6);

[[nodiscard]] std::vector<std::string> with(std::vector<std::string> arguments,
                                            const std::vector<std::string>& more);

/// Returns a command line without the memory pass and the profile pass.
[[nodiscard]] std::vector<std::string> timed_only(const std::filesystem::path& out,
                                                  int64_t steps = 6);

/// Starts a run in `out` and kills it as soon as it has written a checkpoint of its own.
void kill_after_a_checkpoint(const std::vector<std::string>& arguments,
                             const std::filesystem::path& out);

/// Expects that a command ended by an interrupt, and that its last line, which ends with `words`
/// and the folder as a shell takes it, says how it is continued, and no other line does.
void expect_interrupted(const Finished& ended, const std::string& words, const std::string& folder);

[[nodiscard]] reports::Result result_in(const std::filesystem::path& folder);

}  // namespace noisemark::suite::test
