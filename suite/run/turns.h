#pragma once

#include <vector>

#include "reports/predict/prediction.h"
#include "suite/run/sweep.h"

namespace noisemark::suite {

/// Times a step of each cell's training, in live processes of `noisemark pace`: each takes turns
/// with the first cell, ABBA, so that a machine that slows down meets both alike. Two processes
/// live at once. The times are those of a machine that makes a step of the first cell in its median
/// time over all turns. Throws Error: interrupted (exit code 130), or as PaceProcess does.
[[nodiscard]] std::vector<reports::StepTime> time_in_turns(const std::vector<SweepCell>& cells);

}  // namespace noisemark::suite
