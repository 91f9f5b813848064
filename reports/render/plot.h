#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"

/// SVG plots by gnuplot, with their data and scripts beside them: `plots/NAME.dat`, `.gp`, `.svg`.
namespace noisemark::reports {

struct PlotLink {
  std::string title;
  std::string file;  ///< plot_file()
};

struct Plots {
  std::vector<PlotLink> links;
  std::string left_out;  ///< reason why plots are missing; empty when none is
};

/// The names of plot_sources(), whatever the result.
inline constexpr const char* kStepTimePlot = "step_time";
inline constexpr const char* kLossPlot = "loss";
inline constexpr const char* kMemoryPlot = "memory";
inline constexpr std::array kPlotsOfRun = {kStepTimePlot, kLossPlot, kMemoryPlot};

/// "plots/loss.svg": the picture of a plot, relative to the folder of the report.
[[nodiscard]] std::string plot_file(const std::string& name);

/// The lines of Markdown that show the plot `name`; empty where it is not there.
[[nodiscard]] std::string plot_line(const Plots& plots, const std::string& name);

/// The input of gnuplot for one plot.
struct PlotSource {
  std::string name;
  std::string title;
  std::string data;
  std::string script;
};

/// `text` as a string of a script, whatever it holds: it ends no string and begins no command.
[[nodiscard]] std::string gnuplot_text(std::string_view text);

/// The first lines of every script: size, colours, axes, the names of the files.
[[nodiscard]] std::string plot_head(const std::string& name);

/// Returns the line of a script that labels a logarithmic axis, 'x' or 'y', of that range. Left to
/// itself gnuplot labels whole decades alone, of which a short axis has one or none.
[[nodiscard]] std::string log_ticks(char axis, double low, double high);

/// Says in a line of Markdown why plots are missing; empty where none is.
[[nodiscard]] std::string left_out_line(const Plots& plots);
inline constexpr std::string_view kPlotsLeftOut = "\nPlots were left out: ";

/// Returns those of kPlotsOfRun that `result` has samples for. A pure function.
[[nodiscard]] std::vector<PlotSource> plot_sources(const Result& result);

/// Memory by owner over one step: the stack of the section's timeline, which has at least two
/// points, below its peak. A pure function.
[[nodiscard]] PlotSource memory_plot(const MemorySection& memory);

/// Writes the sources and runs gnuplot on them in `folder`/plots. A plot that is already there and
/// was drawn from the same data and script is kept; those that gnuplot does not draw are left out
/// with the reason. Throws Error (cannot write).
[[nodiscard]] Plots write_plots(const std::filesystem::path& folder,
                                const std::vector<PlotSource>& sources);
/// Writes the plots of plot_sources().
[[nodiscard]] Plots write_plots(const std::filesystem::path& folder, const Result& result);

struct ParetoPoint {
  int64_t bytes = 0;
  double added_s = 0;  ///< time that it adds to a step
  bool chosen = false;
};

/// Time against bytes of the plans that a budget can choose from. `bytes_label`: what the bytes
/// are. A pure function.
[[nodiscard]] PlotSource pareto_plot(const std::vector<ParetoPoint>& points, int64_t budget_bytes,
                                     const std::string& bytes_label);

}  // namespace noisemark::reports
