#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reports/base/error.h"
#include "suite/run/spec/options.h"

namespace noisemark::suite {

/// The wishes of `noisemark profile` beside those of a run.
struct ProfileWishes {
  int64_t steps = 3;             ///< profiled and traced
  std::optional<int64_t> batch;  ///< else the definition's
  bool shapes = false;           ///< of every operator's inputs
  std::string sampling;          ///< "1,8,128": batches of which an evaluation is profiled too
  bool html = false;             ///< also write profile.html
};

/// Trains one benchmark in this process: some steps with the profiler and without it in turns, one
/// whose owners of memory are watched, the profiled ones, and evaluations of the network as
/// samplers make them. Writes profile.md, profile.json, memory_timeline.json, plots of the roofline
/// and of memory, and trace.json.gz (reports/profile) into `out` and prints the page. Throws Error:
/// exit code 2 for bad input, a folder that holds anything else (with
/// --force, than an earlier profile), and more than one mode; as a run's passes do; exit code 130
/// when it is interrupted.
[[nodiscard]] ExitCode run_profile(const RunOptions& options, const ProfileWishes& wishes);

}  // namespace noisemark::suite
