#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memopt/modes/mode.h"
#include "tests/memopt/programs/program.h"

namespace noisemark::memopt::programs {

/// The elements of a tensor, outside of the memory that is counted; empty: undefined.
using Elements = std::vector<double>;

/// Records what one step of a program did.
struct StepTrace {
  std::vector<double> losses;
  std::vector<Elements> gradients;  ///< one for each state, before the update
  Elements retained;                ///< the gradient of a value in the middle, if it was
  int64_t backwards = 0;            ///< number that the program counts, from the first step on
  std::vector<Elements> states;     ///< states after the update
  std::string error;  ///< words of the error that it threw; empty for one of the program's own
  int64_t begin_bytes = 0;        ///< live when it began
  int64_t held_bytes = 0;         ///< the most when a forward pass had ended, above begin_bytes
  int64_t peak_bytes = 0;         ///< the most live until its end
  int64_t retained_bytes = 0;     ///< live bytes that first backward passes added
  int64_t end_bytes = 0;          ///< live when its gradients were gone
  int64_t followed_passes = 0;    ///< passes that followed a plan since the mode was made
  int64_t departures = 0;         ///< passes that left a plan since then
  bool another_follows = true;    ///< the other mode, if there is one, has followed its plan
  int64_t exceeded_steps = 0;     ///< steps since then in which it says that it did not keep its
                                  ///< budget
  int64_t uncertain_steps = 0;    ///< steps since then in which it says that its error may be too
                                  ///< large
  bool refused_by_check = false;  ///< check_step() threw that a strict budget was not kept
};

struct Trace {
  std::vector<StepTrace> steps;   ///< fewer than asked for where one threw
  int64_t peak_saved_bytes = -1;  ///< peak of the last step; -1: not measured
  std::string missing_reason;
  bool needs_more = false;      ///< it says that no plan is within its budget any more
  int64_t codec_fallbacks = 0;  ///< tensors that their codecs did not take
  bool makes_plans = false;
  int64_t host_bytes = 0;             ///< the host memory that the mode took
  int64_t smallest_budget_bytes = 0;  ///< the size that a refusal named; 0: none was refused
  int64_t left_bytes = 0;             ///< live when all was over, above what was live before
};

struct Execution {
  std::function<std::unique_ptr<Mode>()> make_mode;
  /// Weights are set to those of this trace after every step, so that every gradient of a mode that
  /// rounds can be compared. Null says that they are the program's own.
  const Trace* follow = nullptr;
  bool measures_saved = false;  ///< fills Trace::peak_saved_bytes
};

/// The contract allows one error of backward where what a value would be made from is written
/// (memopt/README.md).
[[nodiscard]] bool is_detected_write(const Program& program, const std::string& error);

/// It allows an error of begin_step() where an error of the gradient must be measured, and a hook
/// of the program makes every backward another.
[[nodiscard]] bool is_refused_rehearsal(const Program& program, const std::string& error);

/// Trains the program under a mode. The program's own exceptions are caught as a program would, and
/// a step with an error that is allowed is taken again, a few times. Any other error ends it and
/// stands in the last step's `error`.
[[nodiscard]] Trace execute(const Program& program, const Execution& execution);

}  // namespace noisemark::memopt::programs
