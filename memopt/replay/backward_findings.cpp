#include "memopt/replay/backward_findings.h"

namespace noisemark::memopt {

void BackwardFindings::ran_recipe(bool again) {
  const std::lock_guard lock(mutex_);
  ++found_.recipes_run;
  if (again) ++found_.recipes_run_again;
}

void BackwardFindings::differed(ValueId value) {
  const std::lock_guard lock(mutex_);
  found_.mismatched.push_back(value);
}

BackwardFinding BackwardFindings::all() const {
  const std::lock_guard lock(mutex_);
  return found_;
}

}  // namespace noisemark::memopt
