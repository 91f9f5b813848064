// Run it by hand, on a machine with a GPU that nothing else uses: bin/noisemark_gpu_columns
// [SECONDS]. Shows every column of the first GPU under known loads, and whether it says what is
// known of them. Exit code 0: all of it holds; 1: something does not; 77: no GPU, or nothing that
// could be judged.
#include <ATen/Context.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

#include "suite/environment/environment.h"
#include "suite/environment/gpu_counters.h"
#include "suite/environment/pm_sampling.h"
#include "tests/suite/probes/column_calibration.h"

namespace {

using namespace noisemark::suite;

constexpr double kDefaultSeconds = 5;
constexpr int kCannotRunHere = 77;

int run(double seconds) {
  if (!default_device().is_cuda()) {
    fmt::print("no GPU here\n");
    return requires_cuda() ? 1 : kCannotRunHere;
  }
  const auto counters = make_gpu_counters(0);
  const auto sampled = make_sampled_counters(0);
  const auto rows =
      measure_loads(calibration_loads(), default_device(), {*counters, *sampled}, seconds);
  const auto checks = check_columns(rows);
  fmt::print("{}", calibration_text(rows, checks));
  const auto count = [&](std::optional<bool> verdict) {
    return std::count_if(checks.begin(), checks.end(),
                         [&](const CalibrationCheck& check) { return check.holds == verdict; });
  };
  if (count(false) > 0) return 1;
  return count(true) > 0 ? 0 : kCannotRunHere;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const double seconds = argc > 1 ? std::atof(argv[1]) : kDefaultSeconds;
    if (!(seconds >= 1)) {
      fmt::print(stderr, "noisemark_gpu_columns: SECONDS: {} (at least 1)\n", argv[1]);
      return 2;
    }
    return run(seconds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "noisemark_gpu_columns: {}\n", error.what());
    return 1;
  }
}
