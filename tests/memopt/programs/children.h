#pragma once

#include <optional>

#include "tests/memopt/programs/oracle.h"

namespace noisemark::memopt::programs {

/// judge() in a child process, so that a crash or a program that never ends is a finding as well:
/// one that takes more than `timeout_s` of CPU time.
/// The caller's process must have no other thread.
[[nodiscard]] std::optional<Finding> judge_in_child(const Program& program, const MakeMode& make,
                                                    unsigned timeout_s = 60);

}  // namespace noisemark::memopt::programs
