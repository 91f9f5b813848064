#include "reports/baseline/promote.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "reports/baseline/baseline_cell.h"
#include "reports/baseline/baseline_markdown.h"
#include "reports/check.h"
#include "reports/error.h"
#include "reports/file.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kText = "baseline.md";
constexpr const char* kResult = "result.json";
constexpr const char* kEvents = "events.mlog";

/// Of a run, wherever its side was told to look for it.
fs::path result_file(const NamedResult& run) {
  const fs::path path = run.name;
  return fs::is_directory(path)                 ? path / kResult
         : path.filename().extension() == ".md" ? path.parent_path() / kResult
                                                : path;
}

/// What is kept of a run, by name: its result, and the events that the result lists, which check()
/// would miss.
std::map<std::string, std::string> files_of(const NamedResult& run) {
  const fs::path result = result_file(run);
  std::map<std::string, std::string> files{{kResult, read_file(result)}};
  const fs::path events = result.parent_path() / kEvents;
  if (fs::exists(events)) files[kEvents] = read_file(events);
  return files;
}

Side read_checked(const std::vector<std::string>& paths) {
  Side side = read_runs(paths);
  for (const NamedResult& run : side.runs) {
    const fs::path checked = fs::is_directory(run.name) ? fs::path(run.name) : result_file(run);
    for (const Finding& finding : check(checked)) {
      throw bad_input(finding.file, finding.rule, finding.words, "a result without findings");
    }
  }
  return side;
}

/// Where a cell goes, and what of an earlier baseline lies there.
struct Place {
  const BaselineCell* cell = nullptr;
  fs::path folder;
  std::vector<fs::path> earlier;  ///< folders of runs
};

Place place_of(const BaselineCell& cell, const PromoteOptions& options) {
  const Identity& id = cell.runs.front()->result.identity;
  const std::string hardware = options.hardware.empty() ? hardware_folder(id) : options.hardware;
  Place place{&cell, options.into / hardware / cell_folder(id), {}};
  if (!fs::exists(place.folder)) return place;
  for (const fs::directory_entry& entry : read_folder(place.folder)) {
    if (fs::exists(entry.path() / kResult)) place.earlier.push_back(entry.path());
  }
  std::sort(place.earlier.begin(), place.earlier.end());
  const bool free = place.earlier.empty() && !fs::exists(place.folder / kText);
  if (!free && !options.force) {
    throw bad_input(place.folder.string(), "", "there is a baseline already",
                    "--force replaces it");
  }
  return place;
}

void write_place(const Place& place, Promotion& promotion) {
  // Read first: what is promoted may be what lies there.
  std::map<std::string, std::map<std::string, std::string>> runs;
  for (const NamedResult* run : place.cell->runs) runs[run->result.run_id] = files_of(*run);
  for (const fs::path& folder : place.earlier) {
    if (runs.contains(folder.filename().string())) continue;
    fs::remove_all(folder);
    promotion.removed.push_back(folder / kResult);
  }
  for (const auto& [run_id, files] : runs) {
    make_folder(place.folder / run_id);
    for (const auto& [name, text] : files) {
      const fs::path file = place.folder / run_id / name;
      write_file_atomically(file, text);
      promotion.written.push_back(file);
    }
  }
  write_file_atomically(place.folder / kText, baseline_markdown(*place.cell));
  promotion.written.push_back(place.folder / kText);
}

std::string list(const char* heading, const std::vector<fs::path>& files) {
  if (files.empty()) return "";
  std::string text = fmt::format("{}:\n", heading);
  for (const fs::path& file : files) text += fmt::format("  {}\n", file.string());
  return text;
}

/// What a reader of the folder might take for part of the baseline.
std::string words_on_left_out(const Side& side) {
  std::string text;
  for (const LostRun& run : side.lost) text += fmt::format("  {}: {}\n", run.name, run.why);
  for (const std::string& words : side.left_out) text += fmt::format("  {}\n", words);
  return text.empty() ? "" : "left out:\n" + text;
}

/// Throws Error (bad input) where that cannot be told.
bool is_folder(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::status_known(status)) {
    throw bad_input(path.string(), "", "cannot be read: " + error.message(), "");
  }
  return fs::is_directory(status);
}

}  // namespace

Promotion promote_baseline(const std::vector<std::string>& paths, const PromoteOptions& options) {
  if (!is_folder(options.into)) {
    throw bad_input("--into", "", options.into.string(),
                    "a folder that exists; the default is below the root of the repository");
  }
  const Side side = read_checked(paths);
  const std::vector<BaselineCell> cells = baseline_cells(side);
  std::vector<Place> places;
  for (const BaselineCell& cell : cells) places.push_back(place_of(cell, options));
  Promotion promotion;
  for (const Place& place : places) write_place(place, promotion);
  promotion.text = list("written", promotion.written) + list("removed", promotion.removed) +
                   words_on_left_out(side);
  for (const BaselineCell& cell : cells)
    promotion.text += fmt::format("\n{}", baseline_markdown(cell));
  promotion.text += "\nReview the change with `git diff` and `git status`, then commit it.\n";
  return promotion;
}

std::string show_baselines(const std::string& path) {
  std::vector<fs::path> folders;
  if (is_folder(path)) {
    for (const fs::path& page : files_named(path, kText)) folders.push_back(page.parent_path());
  }
  if (folders.empty()) {
    throw Error(
        ExitCode::kBaselineNeeded,
        fmt::format("{}: no baseline in it (keep one with `noisemark baseline promote`)", path));
  }
  std::sort(folders.begin(), folders.end());
  std::string text;
  for (const fs::path& folder : folders) {
    if (find_runs(folder).folders.empty()) {
      throw Error(ExitCode::kBaselineNeeded,
                  fmt::format("{}: a page without its runs: no {} in it (keep them with `noisemark "
                              "baseline promote --force`)",
                              folder.string(), kResult));
    }
    const Side side = read_side(folder.string());
    for (const BaselineCell& cell : baseline_cells(side)) {
      text += fmt::format("{}{}\n\n{}", text.empty() ? "" : "\n", folder.string(),
                          baseline_markdown(cell));
    }
  }
  return text;
}

}  // namespace noisemark::reports
