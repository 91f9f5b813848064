#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/result.h"

/// SVG plots by gnuplot, with their data and scripts beside them: `plots/NAME.dat`, `.gp`, `.svg`.
namespace noisemark::reports {

struct PlotLink {
  std::string title;
  std::string file;  ///< relative to the folder of the report: "plots/loss.svg"
};

struct Plots {
  std::vector<PlotLink> links;
  std::string left_out;  ///< why plots are missing; empty when none is
};

/// What gnuplot is given for one plot.
struct PlotSource {
  std::string name;
  std::string title;
  std::string data;
  std::string script;
};

/// The first lines of every script: size, colours, axes, the names of the files.
[[nodiscard]] std::string plot_head(const std::string& name);

/// Step time, loss, and memory by owner, those that `result` has samples for. A pure function.
[[nodiscard]] std::vector<PlotSource> plot_sources(const Result& result);

/// Writes the sources and runs gnuplot on them in `folder`/plots. Without gnuplot, a plot that is
/// already there and was drawn from the same data and script is kept; others are left out with the
/// reason. Throws Error (cannot write).
[[nodiscard]] Plots write_plots(const std::filesystem::path& folder,
                                const std::vector<PlotSource>& sources);
/// Those of plot_sources().
[[nodiscard]] Plots write_plots(const std::filesystem::path& folder, const Result& result);

}  // namespace noisemark::reports
