#include "suite/cli/history_command.h"

#include <filesystem>

#include "reports/compare/sides.h"
#include "reports/file.h"
#include "reports/history/history.h"
#include "reports/history/history_markdown.h"

namespace noisemark::suite {

namespace fs = std::filesystem;

Answer show_history(const Arguments& arguments) {
  const reports::Side side = reports::read_runs(arguments.positional());
  reports::History history = reports::history_of(side.runs, arguments.texts("metric"));
  for (const reports::LostRun& run : side.lost) {
    history.left_out.push_back(run.name + ": " + run.why);
  }
  history.left_out.insert(history.left_out.end(), side.left_out.begin(), side.left_out.end());
  if (!arguments.has("out")) return {reports::history_markdown(history), ExitCode::kPass};
  const fs::path folder = arguments.text("out");
  reports::make_folder(folder);
  const reports::Plots plots = reports::write_plots(folder, reports::history_plots(history));
  reports::write_file_atomically(folder / "history.md", reports::history_markdown(history, plots));
  return {(folder / "history.md").string() + "\n", ExitCode::kPass};
}

}  // namespace noisemark::suite
