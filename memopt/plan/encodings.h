#pragma once

#include "memopt/plan/resolve.h"

namespace noisemark::memopt {

/// Gives what `plan` holds, recipes being decided, the codecs of the policy that were not refused
/// yet. Values that share their memory are encoded as one, with all of that memory: encoding one
/// of them alone would free nothing.
void choose_encodings(TreatmentPlan& plan, const Policy& policy, const Overrides& overrides);

}  // namespace noisemark::memopt
