#include "suite/run/failure.h"

#include <c10/util/Exception.h>

#include "memopt/budget_mode.h"
#include "suite/run/device_failure.h"
#include "suite/run/out_of_memory.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

std::string status_of(ExitCode code) {
  switch (code) {
    case ExitCode::kBadInput:
      return "bad input";
    case ExitCode::kNotComparable:
      return "not comparable";
    case ExitCode::kInternal:
      return "internal error";
    case ExitCode::kOutOfMemory:
      return "out of memory";
    case ExitCode::kCannotWrite:
      return "cannot write";
    case ExitCode::kCannotRunHere:
      return "cannot run here";
    default:
      return "failed";
  }
}

Failure unexpected(ExitCode code, const std::string& reason) {
  const std::string status = status_of(code);
  return {code, status, reason, status + ": " + reason};
}

}  // namespace

Failure failure_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return {known->code(), status_of(known->code()), known->what(), known->what()};
  }
  if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) {
    return unexpected(ExitCode::kOutOfMemory, error.what());
  }
  if (dynamic_cast<const NonFinite*>(&error) != nullptr) {
    return {ExitCode::kFailed, status_of(ExitCode::kFailed), error.what(), error.what()};
  }
  if (dynamic_cast<const memopt::BudgetTooSmall*>(&error) != nullptr) {
    return {ExitCode::kBadInput, status_of(ExitCode::kBadInput), error.what(), error.what()};
  }
  if (const auto what = failed_allocation(error)) {
    return unexpected(ExitCode::kOutOfMemory, *what);
  }
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string reason =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  if (const auto of_device = device_failure(reason)) {
    return unexpected(of_device->code, of_device->reason);
  }
  return unexpected(ExitCode::kInternal, reason);
}

}  // namespace noisemark::suite
