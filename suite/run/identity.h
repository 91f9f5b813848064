#pragma once

#include "reports/result.h"
#include "suite/data/dataset.h"
#include "suite/run/plan.h"

namespace noisemark::suite {

/// What a plan is in a result, but for hardware and software (describe_machine).
[[nodiscard]] reports::Identity identity_of(const PlannedRun& plan, const Dataset& dataset);

}  // namespace noisemark::suite
