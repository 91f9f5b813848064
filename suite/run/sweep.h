#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/base/error.h"
#include "reports/render/table.h"
#include "suite/run/spec/options.h"

namespace noisemark::suite {

/// One axis of a sweep.
struct SweepAxis {
  std::string key;                  ///< as it was typed: "batch"
  std::vector<std::string> values;  ///< modes in their canonical spelling, all else as typed
};

/// The axes in «KEY=V1,V2,...», one text each. KEY is mode, baseline, precision, threads, ranks,
/// seed, cudnn.workspace_mib (the limit of a convolution's scratch memory), batch (train.batch) or
/// a key that --set takes. A comma within brackets divides nothing ([1,2]), and a mode has what
/// follows it with an equals sign («budget:1GiB,error=0.01»). Throws Error, exit code 2: no axis,
/// unknown key (with the nearest), no value, an empty one, one that no cell could take, one that
/// names no folder, or a key or value twice.
[[nodiscard]] std::vector<SweepAxis> parse_axes(const std::vector<std::string>& texts);

/// One combination of values.
struct SweepCell {
  std::string name;                 ///< name of its folder: "batch=16,mode=none"
  std::vector<std::string> values;  ///< one for each axis
  RunOptions options;
  Variables environment;  ///< variables set for the cell's process, beside this one's
};

/// Every combination, the last axis first to change. Throws Error, exit code 2, where `base` says
/// itself what an axis is to say.
[[nodiscard]] std::vector<SweepCell> sweep_cells(const RunOptions& base,
                                                 const std::vector<SweepAxis>& axes);

/// The page that a command makes of its cells once they have been run.
struct SweepPage {
  std::string text;
  ExitCode code = ExitCode::kPass;
  std::string json = {};  ///< the figures of the page, for programs; empty: none
};

/// A command that runs the cells of a sweep and makes a page of them.
struct SweepCommand {
  std::string name = "sweep";  ///< name of the command, its folder and the file of its page
  std::function<SweepPage(const reports::Sweep&)> page = [](const reports::Sweep& sweep) {
    return SweepPage{reports::sweep_markdown(sweep)};
  };
  bool html = false;  ///< writes NAME.html too
};

/// Trains one benchmark at every combination of the axes' values, each in a process of its own,
/// into `out/KEY=VALUE[,KEY=VALUE...]`. Prints the command's page, a table with a row for every
/// cell, which is also written to `out/NAME.md`, and its figures to NAME.json; suite.json and
/// report.md are those of any several runs. A cell that cannot be planned or fails is a row with
/// its exit code, and the others go on. A cell whose values exclude each other (a pipeline of one
/// rank) is a row without a run. Returns the worst exit code, of the page too, where out of
/// memory counts as a pass: a sweep is made to find where that is. Throws Error, exit code 2, where
/// the options cannot be had together or not one cell can be planned, and as run_series() does.
[[nodiscard]] ExitCode run_sweep(const RunOptions& options, const std::vector<SweepAxis>& axes,
                                 const SweepCommand& command = {});

}  // namespace noisemark::suite
