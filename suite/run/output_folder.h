#pragma once

#include <filesystem>
#include <string>

namespace noisemark::suite {

/// Where one run writes. Only files that a run makes are ever removed, and only with --force.
///
/// A run that replaces another one writes into the sub-folder `replacement`. The old run stays as
/// it was until put_in_place(), after the new result is written: then the old files go, and the new
/// ones come, result.json last. So a folder never holds the result of one run with files of
/// another. A replacement that was killed stays in its sub-folder: --resume continues it, --force
/// begins it anew. One that was killed while its files came is completed by the next run.
struct OutputFolder {
  std::filesystem::path path;        ///< while the run goes on
  std::filesystem::path final_path;  ///< once its result is written

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

/// Where `folder` replaces another run: puts the new one, whose result is written, in its place.
/// Throws Error, exit code 74.
void put_in_place(const OutputFolder& folder);

/// Whether a run that replaces the one in `path` was begun and not ended.
[[nodiscard]] bool holds_replacement(const std::filesystem::path& path);

/// Makes the folder ready that holds the folders of several runs and their common report. Throws
/// Error like prepare_output_folder() when there is anything in it, unless that is a suite and
/// `existing` ones may stay: then the folder of each run is that run's own affair.
void prepare_suite_folder(const std::filesystem::path& path, bool existing);

/// `parent`/LABEL-1, or the first number that is free.
[[nodiscard]] std::filesystem::path fresh_output_folder(const std::filesystem::path& parent,
                                                        const std::string& label);

}  // namespace noisemark::suite
