#include "suite/run/run.h"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "suite/environment/missing_gpu.h"
#include "suite/environment/surroundings.h"
#include "suite/run/deterministic.h"
#include "suite/run/output_folder.h"
#include "suite/run/plan.h"
#include "suite/run/single_run.h"
#include "suite/run/suite_run.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

fs::path output_path(const RunOptions& options, const std::vector<PlannedRun>& plans) {
  if (!options.out.empty()) return options.out;
  const PlannedRun& first = plans.front();
  return fresh_output_folder(options.out_parent,
                             plans.size() > 1 ? fs::path(options.id).stem().string()
                                              : first.id + "-" + variant_label(first.variant));
}

}  // namespace

void require_one_way_with_what_is_there(const RunOptions& options) {
  if (options.resume && options.out.empty()) {
    throw bad_input("--resume", "needs --out", "", "the folder of the run to continue");
  }
  if (options.resume && options.force) {
    throw bad_input("--force", "given with --resume", "",
                    "one of them: replace the run that is there, or continue it");
  }
}

void tell_of_unused_gpu(const RunOptions& options, c10::Device device) {
  if (!options.device.empty() || !device.is_cpu()) return;
  const std::string words = unused_gpu(look_around());
  if (!words.empty()) fmt::print(stderr, "noisemark: {}\n", words);
}

ExitCode run(const RunOptions& options) {
  require_one_way_with_what_is_there(options);
  choose_cublas_workspace();
  const std::vector<PlannedRun> plans = plan_runs(options);
  tell_of_unused_gpu(options, plans.front().variant.device);
  const fs::path out = output_path(options, plans);
  if (options.resume && !fs::exists(out)) {
    fmt::print(stderr, "noisemark: --resume: {}: nothing is there yet, the run begins\n",
               out.string());
  }
  if (plans.size() == 1) return run_single(options, plans.front(), out);
  return run_suite(options, plans, out);
}

}  // namespace noisemark::suite
