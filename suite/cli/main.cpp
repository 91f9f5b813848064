#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "memopt/saved_tensor_scope.h"
#include "memopt/tracking_allocator.h"
#include "reports/error.h"
#include "suite/cli/cli.h"
#include "suite/run/out_of_memory.h"

namespace {

using noisemark::Error;
using noisemark::ExitCode;

void complain(const std::string& what) {
  fmt::print(stderr, "noisemark: {}\n", what);
}

ExitCode explain(const std::exception& error) {
  if (const auto what = noisemark::suite::failed_allocation(error)) {
    complain("out of memory: " + *what);
    return ExitCode::kOutOfMemory;
  }
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  complain(fmt::format("internal error: {}", torch_error != nullptr
                                                 ? torch_error->what_without_backtrace()
                                                 : error.what()));
  return ExitCode::kInternal;
}

template <class Action>
ExitCode guarded(const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    complain(error.what());
    return error.code();
  } catch (const std::exception& error) {
    return explain(error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  // LibTorch's profiler complains on standard error wherever a CUDA build finds no driver.
  setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
  noisemark::memopt::install_tracking_allocator();
  noisemark::memopt::install_saved_tensor_engine();
  const std::vector<std::string> all(argv, argv + argc);
  const std::vector<std::string> words(all.begin() + (argc > 0 ? 1 : 0), all.end());
  const ExitCode code = guarded([&] { return noisemark::suite::run_command_line(words, all); });
  return static_cast<int>(guarded([&] { return noisemark::suite::required(code); }));
}
