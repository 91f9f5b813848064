#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/base/error.h"
#include "reports/render/report.h"
#include "reports/result/result.h"
#include "suite/run/spec/plan.h"
#include "suite/train/checkpoint.h"

namespace noisemark::suite {

/// Everything that a run may leave in its folder. The result is the last to arrive.
inline constexpr std::array<const char*, 12> kRunFiles = {"plots",
                                                          "report.html",
                                                          "profile",
                                                          "report.md",
                                                          reports::kInsightFile,
                                                          "events.mlog",
                                                          "weights.safetensors",
                                                          "ema.safetensors",
                                                          "checkpoint.safetensors",
                                                          "memory_snapshot.pickle",
                                                          "samples",
                                                          "result.json"};

/// The folder of one run. Only files that a run makes are ever removed, and only with --force.
///
/// A run that replaces another one writes into the sub-folder `replacement`. The old run stays as
/// it was until put_in_place(), after the new result is written: then the old files go, and the new
/// ones come, result.json last. So a folder never holds the result of one run with files of
/// another. A replacement that was killed or interrupted or failed stays in its sub-folder:
/// --resume continues it, --force begins it anew. One that was killed while its files came is
/// completed by the next run.
struct OutputFolder {
  std::filesystem::path path;        ///< while the run goes on
  std::filesystem::path final_path;  ///< path after its result is written

  [[nodiscard]] std::string checkpoint() const {
    return (path / "checkpoint.safetensors").string();
  }
  [[nodiscard]] std::string weights() const { return (path / "weights.safetensors").string(); }
  [[nodiscard]] std::string average() const { return (path / "ema.safetensors").string(); }
  [[nodiscard]] std::string memory_snapshot() const {
    return (path / "memory_snapshot.pickle").string();
  }
  [[nodiscard]] std::filesystem::path samples() const { return path / "samples"; }
  [[nodiscard]] std::string events() const { return (path / "events.mlog").string(); }
};

enum class ExistingRun { kRefuse, kReplace, kResume };

/// Makes the folder ready, and removes what killed runs left half written. Beside a new or empty
/// folder, kReplace and kResume take one that holds a run; whether it is the right run the caller
/// looks after. Throws Error: exit code 2 when the folder holds anything else, or with kRefuse
/// anything; exit code 74 when it cannot be made.
[[nodiscard]] OutputFolder prepare_output_folder(const std::filesystem::path& path,
                                                 ExistingRun existing);

/// Returns whether the run that `folder` replaces gives way only to one that came to its last step
/// (reports/result/gate.h): it came to its own, or left a result that cannot be read, by a newer
/// program for example.
[[nodiscard]] bool replaces_run_to_keep(const OutputFolder& folder);

/// Puts a run whose result is written in the place of the run that `folder` replaces, if any.
/// Throws Error, exit code 74.
void put_in_place(const OutputFolder& folder);

/// Says whether a run that replaces the one in `path` was begun and not ended.
[[nodiscard]] bool holds_replacement(const std::filesystem::path& path);

/// Makes the folder ready that holds the folders of several runs and their common report. Throws
/// Error like prepare_output_folder() when there is anything in it, unless that is a suite and
/// `existing` ones may stay: then the folder of each run is that run's own affair.
void prepare_suite_folder(const std::filesystem::path& path, bool existing);

/// A folder that no other run has: `parent`/LABEL-1, or the first number that is free. It is made
/// at once, so that two runs which look at the same moment do not take the same one, and goes again
/// with the object where nothing was written into it.
class [[nodiscard]] FreshFolder {
 public:
  /// Throws Error, exit code 74.
  FreshFolder(const std::filesystem::path& parent, const std::string& label);
  ~FreshFolder();
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Returns what standard output says of a finished run: one line with the verdict and the main
/// figures, one line per failed gate or reason, and where the report is.
[[nodiscard]] std::string verdict_text(const reports::Result& result,
                                       const std::filesystem::path& folder);

/// Returns what a run is, so that it is continued as nothing else: of a plan on these data, and of
/// a result that the run left, finished or not.
[[nodiscard]] CheckpointKey run_key(const PlannedRun& plan,
                                    const std::vector<reports::DataFile>& data);
[[nodiscard]] CheckpointKey run_key(const reports::Result& result);

/// The result in a folder that is to be continued; empty without one. Throws Error: exit code 3
/// when it is not of the run `own` or not of this program, exit code 2 when it cannot be read.
[[nodiscard]] std::optional<reports::Result> earlier_result(const std::filesystem::path& folder,
                                                            const CheckpointKey& own);

/// The same for a plan whose data were not opened; empty also where the run is not finished
/// (reports/result/gate.h).
[[nodiscard]] std::optional<reports::Result> finished_result(const std::filesystem::path& folder,
                                                             const PlannedRun& plan);

/// Throws Error as require_checkpoint() does, and with exit code 3 when `mode` is lossy: a mode
/// first watches some passes, in which everything is kept, so after a restart gradients would be
/// exact that an uninterrupted run had rounded.
void require_continuable(const std::string& checkpoint, const CheckpointKey& own,
                         const ModeSpec& mode);

/// Says on standard error that the checkpoints of a lossy mode are none to continue from.
void tell_of_checkpoints(const ModeSpec& mode);

/// Does what --resume does with a finished run: says so and shows its verdict; writes a report only
/// where the run was killed before it had one. Returns the run's exit code.
[[nodiscard]] ExitCode leave_finished(const reports::Result& result,
                                      const std::filesystem::path& folder);

/// "the same command with --out DIR and --resume continues it, with --force begins anew": the ways
/// on after an interrupt.
[[nodiscard]] std::string ways_on(const std::filesystem::path& out, bool resumable = true);

}  // namespace noisemark::suite
