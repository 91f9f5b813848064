#pragma once

#include <filesystem>
#include <string>

namespace noisemark::suite {

/// Where one run writes. Only files that a run makes are ever removed, and only with `force`.
struct OutputFolder {
  std::filesystem::path path;

  [[nodiscard]] std::string checkpoint() const {
    return (path / "checkpoint.safetensors").string();
  }
  [[nodiscard]] std::string weights() const { return (path / "weights.safetensors").string(); }
  [[nodiscard]] std::string events() const { return (path / "events.mlog").string(); }
};

enum class ExistingRun { kRefuse, kReplace, kResume };

/// Makes the folder ready. kResume starts from the beginning when the run was killed before its
/// first checkpoint. Throws Error: exit code 2 when the folder holds another run (or anything else)
/// and `existing` is kRefuse, or a finished run without a checkpoint is to be resumed; exit code 74
/// when it cannot be made.
[[nodiscard]] OutputFolder prepare_output_folder(const std::filesystem::path& path,
                                                 ExistingRun existing);

/// Makes the folder ready that holds the folders of several runs and their common report. Throws
/// Error like prepare_output_folder() when there is anything in it, unless `existing` may stay:
/// then the folder of each run is that run's own affair.
void prepare_suite_folder(const std::filesystem::path& path, bool existing);

/// "noisemark-out/LABEL-1", or the first number that is free.
[[nodiscard]] std::filesystem::path fresh_output_folder(const std::string& label);

}  // namespace noisemark::suite
