#pragma once

#include <string>
#include <vector>

#include "reports/result.h"

namespace noisemark::suite {

/// An empty result of this moment: a random run id, the time, the command line and how to repeat
/// it.
[[nodiscard]] reports::Result new_result(const std::vector<std::string>& argv);

/// The words as one line that a shell splits back into them; an output folder (--out) is left out,
/// since repeating must not collide with the original.
[[nodiscard]] std::string repeat_command(const std::vector<std::string>& argv);

}  // namespace noisemark::suite
