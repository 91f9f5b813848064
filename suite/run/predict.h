#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reports/base/error.h"
#include "suite/run/spec/options.h"

namespace noisemark::suite {

/// The wishes of `noisemark predict` beside those of a run.
struct PredictOptions {
  std::string batches;                  ///< "16,32,64"; empty: three sizes up to the definition's
  std::optional<int64_t> memory_bytes;  ///< asks for the largest batch within it
  bool check = false;                   ///< also train five sizes that the prediction does not know
  bool html = false;                    ///< also write predict.html
};

/// Trains one benchmark at three batch sizes under each of the modes, each in a process of its own
/// below `out`, and predicts time and peak of other sizes from them (reports/predict). Prints the
/// page, which is also `out/predict.md`; its figures are in `out/predict.json`. Returns the worst
/// exit code of the runs, kFailed where a checked prediction is further off than it may be. Throws
/// Error, exit code 2, for sizes that nothing can be predicted from or that the accumulation does
/// not divide, and as run_sweep() does.
[[nodiscard]] ExitCode run_prediction(const RunOptions& options, const PredictOptions& wishes);

}  // namespace noisemark::suite
