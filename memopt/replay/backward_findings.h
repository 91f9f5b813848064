#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// What a backward pass under a plan finds out.
struct BackwardFinding {
  int64_t recipes_run = 0;
  int64_t recipes_run_again = 0;  ///< beyond once per pass: their result was gone too early
  /// Values whose slot did not get the same bits, in the order in which they were found: of a pass
  /// that verifies all that differ, of one that follows those whose ValueSample does, whose slots
  /// gave backward an error.
  std::vector<ValueId> mismatched;
};

/// Collects it. It outlives the pass, whose backward may come after the end of its step, and keeps
/// nothing of it alive. Thread-safe.
class BackwardFindings {
 public:
  void ran_recipe(bool again);
  void differed(ValueId value);
  /// Since the pass began.
  [[nodiscard]] BackwardFinding all() const;

 private:
  mutable std::mutex mutex_;
  BackwardFinding found_;
};

}  // namespace noisemark::memopt
