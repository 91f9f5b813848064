#include "memopt/record/operator_times.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <cstddef>

#include "memopt/device/device_clock.h"

namespace noisemark::memopt {
namespace {

std::unique_ptr<DeviceClock> clock_for(const ModelView& model) {
  if (model.parameters.empty()) return make_device_clock(c10::kCPU);
  try {
    return make_device_clock(model.parameters.front().second.device());
  } catch (const c10::Error&) {
    return make_device_clock(c10::kCPU);
  }
}

}  // namespace

OperatorTimes::OperatorTimes(const ModelView& model, Queue queue)
    : OperatorTimes(clock_for(model), queue) {}

OperatorTimes::OperatorTimes(std::unique_ptr<DeviceClock> clock, Queue queue)
    : clock_(std::move(clock)), queue_(queue) {}

void OperatorTimes::between_operators() {
  if (queue_ != Queue::kHeld || marks_held_ < kMarksHeld) return;
  clock_->hold(kLongestHold_s);
  marks_held_ = 0;
}

DeviceClock::Mark OperatorTimes::mark() {
  ++marks_held_;
  return clock_->mark();
}

void OperatorTimes::read_into(std::vector<RecordedOperator>& operators) {
  TORCH_CHECK(operators.size() == spans_.size(), "operator times: ", spans_.size(), " of ",
              operators.size(), " operators were measured");
  end();
  clock_->synchronize();
  for (size_t op = 0; op < operators.size(); ++op) {
    const double seconds = clock_->seconds_between(spans_[op].first, spans_[op].second);
    operators[op].cost_ns = std::llround(seconds * 1e9);
  }
}

}  // namespace noisemark::memopt
