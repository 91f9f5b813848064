#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/result/result.h"
#include "suite/data/dataset.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {

/// Returns the identity of a plan in a result, but for hardware and software (describe_machine).
[[nodiscard]] reports::Identity identity_of(const PlannedRun& plan, const Dataset& dataset);

/// An empty result of this moment: a random run id, the time, the command line and how to repeat
/// it. `data`: the folder of the pictures that the run uses, empty without any; `threads`: in
/// force.
[[nodiscard]] reports::Result new_result(const std::vector<std::string>& argv,
                                         const std::string& data, int64_t threads,
                                         int64_t ranks = 1);

/// The words as one line that a shell splits back into them; an output folder (--out) is left out
/// with what is to become of the run in it (--force, --resume), since repeating must not collide
/// with the original. `data` (where it is not empty) is added as --data and `threads` (where it is
/// not 0) as --threads when the words do not name them, and `ranks` where they are several: they
/// came from variables that another shell does not have, or from the machine.
[[nodiscard]] std::string repeat_command(const std::vector<std::string>& argv,
                                         const std::string& data = "", int64_t threads = 0,
                                         int64_t ranks = 1);

}  // namespace noisemark::suite
