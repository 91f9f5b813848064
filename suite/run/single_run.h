#pragma once

#include <filesystem>

#include "reports/result.h"
#include "suite/run/plan.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// Runs one plan in this process: memory pass, profile pass, training pass, gates. Writes
/// result.json, report.md, plots, events.mlog, weights.safetensors and, where the definition has an
/// average of the weights, ema.safetensors into `out` and prints the verdict. `fault` is for
/// self-tests: it breaks the run, whose title then says so. A run that ends early (interrupt, NaN)
/// still writes what it has, marked so; so does one that ends in an exception, which is then thrown
/// on.
[[nodiscard]] ExitCode run_single(const RunOptions& options, const PlannedRun& plan,
                                  const std::filesystem::path& out, const Fault& fault = {});

/// What run_single and pace share: threads, determinism and the C library's memory, for the rest of
/// the process.
void apply_variant(const Variant& variant);

/// Session options of a plan, with the data opened.
[[nodiscard]] SessionOptions session_options(const RunOptions& options, const PlannedRun& plan);

}  // namespace noisemark::suite
