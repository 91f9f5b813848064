#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "reports/result/result.h"
#include "suite/data/dataset.h"
#include "suite/run/spec/options.h"
#include "suite/run/spec/run_spec.h"

namespace noisemark::suite {

/// One run of a benchmark, checked.
struct PlannedRun {
  RunSpec spec;       ///< its definition's seed is the definition's own
  uint64_t seed = 0;  ///< the seed in force: --seed, or the definition's
  std::string id;     ///< with its scale: "gmm16@cpu"
  std::string given;  ///< argument for a process of its own: a benchmark or a definition file
  int64_t seeds = 1;  ///< seeds that its benchmark is trained with
  /// The run is there for its quality, by its suite, which makes no other pass of it, but trains
  /// its first seed beside none, for a certificate or the gradient's error.
  bool judged = false;
  bool first_seed = true;
};

/// Throws Error, exit code 2, when `id` is a suite, for a `command` that takes one benchmark.
void require_benchmark(const std::string& command, const std::string& id);

/// Everything that `options` asks for, checked. A benchmark that a suite trains with several seeds
/// has as many, or --seeds where that is more. All modes of a seed come before the next seed: a
/// suite that is cut off can be judged by the seeds it has (`noisemark quality`), and what moves
/// the machine moves all modes alike. Throws Error: exit code 2 for an unknown benchmark, mode,
/// baseline, precision or device, a mode or baseline given twice (two runs of one name), more
/// threads than the machine has logical processors, more than 1,000 seeds, or more looks than prove
/// anything; exit code 77 when the device is not here.
[[nodiscard]] std::vector<PlannedRun> plan_runs(const RunOptions& options);

/// A part of several runs.
struct Shard {
  int64_t number = 1;  ///< begins at 1
  int64_t of = 1;
};

/// Reads "K/N". Throws Error, exit code 2.
[[nodiscard]] Shard parse_shard(const std::string& text);

/// The runs of one part. All modes of a benchmark and seed are in the same one, so that what they
/// are compared with ran on the same machine. Throws Error, exit code 2, for more parts than there
/// are such groups.
[[nodiscard]] std::vector<PlannedRun> part_of(const std::vector<PlannedRun>& plans,
                                              const Shard& shard);

/// Whoever names no device on a machine with a GPU expects it: where `device`, which was chosen, is
/// the CPU for want of a GPU that can be used, says so and why on stderr.
void tell_of_unused_gpu(const RunOptions& options, c10::Device device);

/// Throws Error, exit code 2, for --resume without a folder or with --force.
void require_one_way_with_what_is_there(const RunOptions& options);

/// Returns the identity of a plan in a result, but for hardware and software (describe_machine).
[[nodiscard]] reports::Identity identity_of(const PlannedRun& plan, const Dataset& dataset);

/// An empty result of this moment: a random run id, the time, the command line and how to repeat
/// it. `data`: the folder of the images that the run uses, empty without any; `threads`: in
/// force.
[[nodiscard]] reports::Result new_result(const std::vector<std::string>& argv,
                                         const std::string& data, int64_t threads,
                                         int64_t ranks = 1);

/// The words as one line that a shell splits back into them; an output folder (--out) is left out
/// with what is to become of the run in it (--force, --resume), since repeating must not collide
/// with the original. `data` (where it is not empty) is added as --data and `threads` (where it is
/// not 0) as --threads when the words do not name them, and `ranks` where they are several: they
/// came from variables that another shell does not have, or from the machine.
[[nodiscard]] std::string repeat_command(const std::vector<std::string>& argv,
                                         const std::string& data = "", int64_t threads = 0,
                                         int64_t ranks = 1);

}  // namespace noisemark::suite
