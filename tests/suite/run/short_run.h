#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/result/result.h"

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

[[nodiscard]] reports::Result result_in(const std::filesystem::path& folder);

}  // namespace noisemark::suite::test
