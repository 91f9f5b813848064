#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "memopt/device_clock.h"
#include "memopt/mode.h"
#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// What the operators of a forward pass take on the model's device, whose work may begin and end
/// after the call has returned: marks are put into the device's own order of work and read once all
/// of it is done. On a CPU, and on a device of which this build knows no clock, that is the time of
/// the call. Used by the thread that runs the pass.
class OperatorTimes {
 public:
  explicit OperatorTimes(const ModelView& model);

  [[nodiscard]] DeviceClock::Mark mark() { return clock_->mark(); }
  /// Of the operator after those that were noted before.
  void note(DeviceClock::Mark begin, DeviceClock::Mark end) { spans_.emplace_back(begin, end); }
  /// Waits for the device, and gives every operator its time.
  void read_into(std::vector<RecordedOperator>& operators);

 private:
  std::unique_ptr<DeviceClock> clock_;
  std::vector<std::pair<DeviceClock::Mark, DeviceClock::Mark>> spans_;
};

}  // namespace noisemark::memopt
