#pragma once

#include <string>
#include <vector>

#include "reports/result.h"

namespace noisemark::suite {

/// An empty result of this moment: a random run id, the time, the command line and how to repeat
/// it. `data`: the folder of the pictures that the run uses, empty without any.
[[nodiscard]] reports::Result new_result(const std::vector<std::string>& argv,
                                         const std::string& data);

/// The words as one line that a shell splits back into them; an output folder (--out) is left out
/// with what is to become of the run in it (--force, --resume), since repeating must not collide
/// with the original. `data` is added as --data when the words do
/// not name it: it came from a variable that another shell does not have.
[[nodiscard]] std::string repeat_command(const std::vector<std::string>& argv,
                                         const std::string& data = "");

}  // namespace noisemark::suite
