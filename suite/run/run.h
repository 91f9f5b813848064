#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/error.h"

namespace noisemark::suite {

/// What the user asked for, as typed; checked by run(). Empty or unset: the default named beside
/// it.
struct RunOptions {
  std::string id;                      ///< benchmark, benchmark@scale, suite, or a definition file
  std::vector<std::string> modes;      ///< {"none"}; for a suite: what the suite says
  std::vector<std::string> baselines;  ///< {"plain"}
  std::string precision;               ///< "fp32"
  std::string device;                  ///< "cuda" where there is one, else "cpu"
  std::optional<uint64_t> seed;        ///< the definition's
  int64_t seeds = 1;                   ///< that many runs, of `seed` and the numbers after it
  std::optional<int64_t> looks;        ///< at the quality over seeds: reports' default
  std::optional<int64_t> threads;      ///< LibTorch's own choice
  int64_t loader_threads = 1;          ///< that make batches ahead of time
  std::string data;                    ///< folder of the pictures
  std::string out;                     ///< a new folder in out_parent
  bool force = false;                  ///< replace another run's files in `out`
  std::vector<std::string> sets;       ///< "key=value"
  std::string init_weights;            ///< safetensors under the peers' names
  int64_t checkpoint_every = 0;        ///< steps; 0: never
  bool resume = false;                 ///< continue the run in `out` from its checkpoint
  bool deterministic = false;          ///< deterministic algorithms
  bool memory = true;                  ///< make the memory pass
  bool memory_snapshot = false;        ///< and keep what it saw for PyTorch's memory viewer
  bool profile = true;                 ///< make the profile pass
  bool certificate = true;             ///< train a memory mode beside "none"
  std::optional<int64_t> fit_memory_bytes;  ///< look for the largest batch within so much
  std::optional<double> slow_down_frac;     ///< pace only: a control, put into every step
  bool verdict = true;                      ///< print the run's verdict
  std::vector<std::string> argv;            ///< the whole command line, for the result
  /// Where the new folder is made when `out` is empty.
  std::string out_parent = "noisemark-out";
};

/// Runs everything `options` names. One benchmark under one mode and baseline runs in this process
/// and writes its result into `out`; several run one after another, each in a process of its own,
/// into `out/BENCHMARK@SCALE/MODE-BASELINE-PRECISION`, with `-seedN` behind it where there are
/// several seeds, and `out/report.md` shows them side by side; several seeds under several modes
/// are also judged in `out/quality.md`. That verdict counts where the suite itself asks for seeds;
/// else it changes no exit code: `noisemark quality` gates.
/// Returns the worst exit code. Progress goes to stderr, the verdict to stdout.
[[nodiscard]] ExitCode run(const RunOptions& options);

/// Whoever names no device on a machine with a GPU expects it: where `device`, which was chosen, is
/// the CPU for want of a GPU that can be used, says so and why on stderr.
void tell_of_unused_gpu(const RunOptions& options, c10::Device device);

/// Throws Error, exit code 2, for --resume without a folder or with --force.
void require_one_way_with_what_is_there(const RunOptions& options);

/// Keeps one training session ready and obeys lines on standard input, so that several builds or
/// frameworks can be timed in turns on one machine: «run K» makes K steps and answers {"step_s":
/// [...], "loss": [...]}; «quit» or the end of input ends it. The first line out is {"ready": true,
/// ...}: "identity" is what another build must agree in to do the same work, "about" may differ.
[[nodiscard]] ExitCode pace(const RunOptions& options);

}  // namespace noisemark::suite
