#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/base/error.h"
#include "reports/render/run_folder.h"
#include "suite/run/spec/options.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {

/// This process's environment with these variables in place of those of their names: "NAME=VALUE".
[[nodiscard]] std::vector<std::string> environment_with(const Variables& variables);

/// The meaning of a process's end to the one that waited for it.
struct ChildEnd {
  ExitCode code = ExitCode::kPass;
  std::string words;        ///< why it failed; empty: nothing is known
  std::string run_id = {};  ///< names the run whose result it left; empty: it left none
};

/// Interprets `wait_status` as waitpid() gives it. `ended_for_memory`: meanwhile the kernel ended a
/// process of this one's control group for want of memory. Without that a SIGKILL may still have
/// been the kernel's: then it is kInternal, and said.
[[nodiscard]] ChildEnd end_of_child(int wait_status, bool ended_for_memory);

/// The arguments that make `noisemark` run exactly this plan, after the program's name.
[[nodiscard]] std::vector<std::string> child_arguments(const RunOptions& options,
                                                       const PlannedRun& plan,
                                                       const std::filesystem::path& out);

/// One of several runs of a command, each in a process of its own.
struct SeriesRun {
  std::string name;  ///< name of its folder, below that of the series
  RunOptions options;
  /// It is empty where it cannot be planned, and ends with `refused` without a process.
  std::optional<PlannedRun> plan;
  Variables environment;  ///< variables set for its process, beside this one's
  ExitCode refused = ExitCode::kBadInput;
  std::string refusal = {};  ///< why it cannot be planned
};

/// The ends of the runs of a series.
struct SeriesEnd {
  std::vector<std::optional<ExitCode>> codes;  ///< one for each run; empty: it has not begun
  bool stopped = false;                        ///< an interrupt stopped it
};

/// The runs that a series is made of.
struct SeriesTitle {
  std::string text;
  std::optional<reports::SuitePart> part = std::nullopt;  ///< part that is made here; empty: all
};

/// Makes the runs one after another below `out`, which prepare_suite_folder() has made ready, and
/// writes suite.json before and report.md after them: only what these runs left counts. With
/// `resume`, those that are finished stay as they are and the others are continued or begun. An
/// interrupt ends the run that goes on, as it ends any, and the series after it. `title` says of
/// what series the folder is: one with another title is not continued. Throws Error, exit code 3,
/// for that, and where a folder holds a run of something else.
[[nodiscard]] SeriesEnd run_series(const SeriesTitle& title, const std::vector<SeriesRun>& runs,
                                   const std::filesystem::path& out, bool resume);

/// Returns the worst exit code of all runs and of the interrupt.
[[nodiscard]] ExitCode worst_of(const SeriesEnd& end);

/// The one that outweighs the other when several runs end differently: a red run outweighs one that
/// could not run, which outweighs a pass; of equals `a`.
[[nodiscard]] ExitCode worse(ExitCode a, ExitCode b);

/// Runs everything `options` names. One benchmark under one mode and baseline runs in this process
/// and writes its result into `out`, or in --ranks processes, or in those that were started as its
/// ranks (ranks.h); several run one after another, each in a process of its own,
/// into `out/BENCHMARK@SCALE/MODE-BASELINE-PRECISION`, with `-seedN` behind it where there are
/// several seeds, and `out/report.md` shows them side by side; several seeds under several modes
/// are also judged in `out/quality.md`, but not where --shard leaves out a part. That verdict
/// counts where the suite itself asks for seeds; else it changes no exit code: `noisemark quality`
/// gates. Returns the worst exit code. Progress goes to stderr, the verdict to stdout.
[[nodiscard]] ExitCode run(const RunOptions& options);

/// Runs the plans one after another, each in a process of its own, into
/// `out/BENCHMARK@SCALE/MODE-BASELINE-PRECISION`, and writes suite.json before and report.md after
/// them: only what these runs left counts. With `resume`, runs that are finished stay as they are
/// and the others are continued or begun. Returns the worst exit code, of the verdict on quality
/// too where the suite judges it.
[[nodiscard]] ExitCode run_suite(const RunOptions& options, const std::vector<PlannedRun>& plans,
                                 const std::filesystem::path& out);

/// Returns the exit code of a suite whose runs end with `worst` at the most and whose quality with
/// `quality`: the worse, where it is there to judge quality; else `noisemark quality` gates.
[[nodiscard]] ExitCode with_quality(ExitCode worst, ExitCode quality, bool judged);

/// Keeps one training session ready and obeys lines on standard input, so that several builds or
/// frameworks can be timed in turns on one machine: «run K» makes K steps and answers {"step_s":
/// [...], "loss": [...]}; «quit» or the end of input ends it. The first line out is {"ready": true,
/// ...}: "identity" is what another build must agree in to do the same work, "about" may differ.
[[nodiscard]] ExitCode pace(const RunOptions& options);

/// The wishes of `noisemark predict` beside those of a run.
struct PredictOptions {
  std::string batches;                  ///< "16,32,64"; empty: three sizes up to the definition's
  std::optional<int64_t> memory_bytes;  ///< asks for the largest batch within it
  bool check = false;                   ///< trains five sizes, too, that the prediction does not
                                        ///< know
  bool html = false;                    ///< writes predict.html too
};

/// Trains one benchmark at three batch sizes under each of the modes, each in a process of its own
/// below `out`, times their steps in turns, and predicts time and peak of other sizes from them
/// (reports/predict). Prints the page, which is also `out/predict.md`; its figures are in
/// `out/predict.json`. Returns the worst exit code of the runs, kFailed where a checked prediction
/// is further off than it may be, kInconclusive where its measured time is too uncertain to tell.
/// Throws Error, exit code 2, for sizes that nothing can be predicted from or that the accumulation
/// does not divide, and as run_sweep() does.
[[nodiscard]] ExitCode run_prediction(const RunOptions& options, const PredictOptions& wishes);

/// The wishes of `noisemark profile` beside those of a run.
struct ProfileWishes {
  int64_t steps = 3;             ///< number that is profiled and traced
  std::optional<int64_t> batch;  ///< is empty for the definition's
  bool shapes = false;           ///< record every operator's input shapes
  std::string sampling;          ///< "1,8,128": batches of which an evaluation is profiled too
  bool html = false;             ///< writes profile.html too
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
