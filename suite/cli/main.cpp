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
#include "suite/environment/environment.h"
#include "suite/environment/memory_limit.h"
#include "suite/run/failure.h"

namespace {

using noisemark::ExitCode;

template <class Action>
ExitCode guarded(const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    const noisemark::suite::Failure failure = noisemark::suite::failure_of(error);
    fmt::print(stderr, "noisemark: {}\n", failure.message);
    return failure.code;
  }
}

ExitCode run_with_requirement(const std::vector<std::string>& words,
                              const std::vector<std::string>& all) {
  const bool cuda = noisemark::suite::requires_cuda();
  const ExitCode code = guarded([&] { return noisemark::suite::run_command_line(words, all); });
  return cuda && code == ExitCode::kCannotRunHere ? ExitCode::kFailed : code;
}

}  // namespace

int main(int argc, char** argv) {
  // LibTorch's profiler complains on standard error wherever a CUDA build finds no driver.
  setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
  noisemark::memopt::install_tracking_allocator(noisemark::suite::memory_limit_bytes());
  noisemark::memopt::install_saved_tensor_engine();
  const std::vector<std::string> all(argv, argv + argc);
  const std::vector<std::string> words(all.begin() + (argc > 0 ? 1 : 0), all.end());
  return static_cast<int>(guarded([&] { return run_with_requirement(words, all); }));
}
