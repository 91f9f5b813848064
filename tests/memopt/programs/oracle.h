#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "memopt/modes/mode.h"
#include "tests/memopt/programs/program.h"

namespace noisemark::memopt::programs {

/// The ways in which a mode can be wrong on a program.
struct Finding {
  /// One of: "invalid" (the program itself fails under mode "none"), "throws", "bits", "not
  /// finite", "error", "leak", "budget", "holds more", "idle", "refused twice"; of a process that
  /// ended: "crash", "timeout".
  std::string kind;
  std::string detail;  ///< one line
};

/// Builds a mode of a spelling; make_mode(), or a broken one that must be found out.
using MakeMode = std::function<std::unique_ptr<Mode>(const std::string& spelling)>;

/// Trains the program under mode "none" and under its mode and says in what the second broke its
/// promise: a lossless mode gives every loss, gradient and weight bit for bit; one that rounds
/// gives finite gradients within a bound for its rounding; live bytes return to what they were; a
/// budget is kept or the mode says that it is not; no more bytes are held than under "none", and a
/// plan that is never followed is no secret. Empty says nothing.
[[nodiscard]] std::optional<Finding> judge(const Program& program, const MakeMode& make);

}  // namespace noisemark::memopt::programs
