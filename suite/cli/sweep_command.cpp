#include "suite/cli/sweep_command.h"

#include "suite/run/sweep.h"

namespace noisemark::suite {

ExitCode sweep(const Arguments& arguments, const RunOptions& options) {
  return run_sweep(options, parse_axes(arguments.texts("axis")));
}

}  // namespace noisemark::suite
