#pragma once

#include <exception>
#include <string>

#include "reports/error.h"

namespace noisemark::suite {

/// What an exception that ends the program means.
struct Failure {
  ExitCode code = ExitCode::kInternal;
  std::string status;   ///< of a result: "out of memory", "cannot write", "internal error" ...
  std::string reason;   ///< what happened, without LibTorch's backtrace
  std::string message;  ///< for standard error: the reason, and where it needs one the status
};

[[nodiscard]] Failure failure_of(const std::exception& error);

}  // namespace noisemark::suite
