#include "reports/quality/quality_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "reports/report.h"
#include "reports/write_report.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

/// Benchmarks that the suite in a folder judges; empty: all of the folder.
std::set<std::string> judged_in(const fs::path& folder) {
  if (!fs::is_directory(folder)) return {};
  const auto suite = read_suite(folder);
  return suite ? suite->judged : std::set<std::string>{};
}

template <typename T>
void move_into(std::vector<T>& all, std::vector<T>& some) {
  std::move(some.begin(), some.end(), std::back_inserter(all));
}

/// Moves the runs that their suite does not judge over seeds out of `side`.
void leave_out(const std::set<std::string>& judged, Side& side, Side& by_steps) {
  std::set<std::string> benchmarks;
  const auto others = std::stable_partition(
      side.runs.begin(), side.runs.end(),
      [&](const NamedResult& run) { return judged.contains(benchmark_name(run.result.identity)); });
  for (auto run = others; run != side.runs.end(); ++run) {
    benchmarks.insert(benchmark_name(run->result.identity));
    by_steps.runs.push_back(std::move(*run));
  }
  side.runs.erase(others, side.runs.end());
  for (const std::string& benchmark : benchmarks) {
    side.left_out.push_back(benchmark + ": not there for its quality over seeds");
  }
  std::erase_if(side.lost, [&](const LostRun& run) {
    return std::none_of(judged.begin(), judged.end(), [&](const std::string& benchmark) {
      return run.name.find(benchmark + "/") != std::string::npos;
    });
  });
}

fs::path whole(const fs::path& path) {
  return fs::absolute(path).lexically_normal();
}

std::vector<std::string> sheets_of(const Side& side, const fs::path& page) {
  std::vector<std::string> sheets;
  for (const NamedResult& run : side.runs) {
    const fs::path sheet = fs::path(run.name) / "samples" / "sheet.png";
    if (!fs::exists(sheet)) continue;
    sheets.push_back(whole(sheet).lexically_proximate(whole(page)).generic_string());
  }
  std::sort(sheets.begin(), sheets.end());
  return sheets;
}

}  // namespace

QualitySide read_quality_side(const std::vector<std::string>& paths, const fs::path& page) {
  QualitySide read;
  read.side.name = read_runs(paths).name;  // for what it refuses
  for (const std::string& path : paths) {
    Side side = read_side(path);
    const std::set<std::string> judged = judged_in(path);
    if (!judged.empty()) leave_out(judged, side, read.by_steps);
    move_into(read.side.runs, side.runs);
    move_into(read.side.lost, side.lost);
    move_into(read.side.left_out, side.left_out);
  }
  read.distances = read_distances(read.side);
  attach_distances(read.distances, read.side);
  const fs::path only = paths.size() == 1 ? paths.front() : ".";
  read.sheets = sheets_of(read.side, page.empty() ? only : page);
  return read;
}

}  // namespace noisemark::reports
