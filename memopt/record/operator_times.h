#pragma once

#include <c10/util/Exception.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "memopt/autograd/model_view.h"
#include "memopt/device/device_clock.h"
#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// The times of a forward pass's operators on the model's device, whose work may begin and end
/// after the call has returned: marks are put into the device's own order of work and read once all
/// of it is done. On a CPU, and on a device of which this build knows no clock, that is the time of
/// the call. It is used by the thread that runs the pass.
///
/// A device that waits for the host to issue the next operator passes its marks when the host does,
/// and small operators seem to take what it takes to launch them. So the device may be held while
/// the host issues a few of them, and runs these while it is held before the next few.
class OperatorTimes {
 public:
  /// Marks in one stretch: with the launches between them fewer than a device's queue takes.
  static constexpr int kMarksHeld = 64;
  /// A pass that waits for the device in a stretch waits so long, and goes on unheld up to the next
  /// stretch. Issuing one takes a few milliseconds.
  static constexpr double kLongestHold_s = 0.05;

  enum class Queue {
    kAsItComes,
    kHeld,  ///< repeats a pass that has been, for what is first used may make the host wait
  };

  OperatorTimes(const ModelView& model, Queue queue) : OperatorTimes(clock_for(model), queue) {}
  OperatorTimes(std::unique_ptr<DeviceClock> clock, Queue queue)
      : clock_(std::move(clock)), queue_(queue) {}

  /// No operator runs: the only place where a stretch may end, or it would be in a time.
  void between_operators() {
    if (queue_ != Queue::kHeld || marks_held_ < kMarksHeld) return;
    clock_->hold(kLongestHold_s);
    marks_held_ = 0;
  }
  [[nodiscard]] DeviceClock::Mark mark() {
    ++marks_held_;
    return clock_->mark();
  }
  /// Notes the operator after those that were noted before.
  void note(DeviceClock::Mark begin, DeviceClock::Mark end) { spans_.emplace_back(begin, end); }
  /// The pass is over. Idempotent.
  void end() { clock_->release(); }
  /// Waits for the device, and gives every operator its time.
  void read_into(std::vector<RecordedOperator>& operators) {
    TORCH_CHECK(operators.size() == spans_.size(), "operator times: ", spans_.size(), " of ",
                operators.size(), " operators were measured");
    end();
    clock_->synchronize();
    for (size_t op = 0; op < operators.size(); ++op) {
      const double seconds = clock_->seconds_between(spans_[op].first, spans_[op].second);
      operators[op].cost_ns = std::llround(seconds * 1e9);
    }
  }

 private:
  static std::unique_ptr<DeviceClock> clock_for(const ModelView& model) {
    if (model.parameters.empty()) return make_device_clock(c10::kCPU);
    try {
      return make_device_clock(model.parameters.front().second.device());
    } catch (const c10::Error&) {
      return make_device_clock(c10::kCPU);
    }
  }

  std::unique_ptr<DeviceClock> clock_;
  const Queue queue_;
  int marks_held_ = kMarksHeld;  ///< marks left in this stretch
  std::vector<std::pair<DeviceClock::Mark, DeviceClock::Mark>> spans_;
};

}  // namespace noisemark::memopt
