#include "reports/compare/sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <tuple>

#include "reports/check.h"
#include "reports/error.h"
#include "reports/file.h"
#include "reports/json_io.h"
#include "reports/mark.h"
#include "reports/report.h"
#include "reports/report_text.h"
#include "reports/sha256.h"
#include "reports/utc_now.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

using Runs = std::vector<const NamedResult*>;
using CellKey = std::tuple<std::string, std::string, std::string, std::string, std::string,
                           std::string, std::string>;

Result read_reported(const fs::path& report) {
  const std::string words = read_file(report);
  const auto mark = read_mark(words);
  if (!mark) throw bad_input(report.string(), "", "not the report of a run", "");
  const fs::path file = report.parent_path() / "result.json";
  const std::string text = read_file(file);
  if (sha256_of(text) != mark->result_sha256) {
    throw bad_input(report.string(), "", "not rendered from the result.json beside it",
                    "`noisemark report` renders it again");
  }
  Result result = from_json(text, file.string());
  const std::string difference = report_difference(words, result, mark->result_sha256);
  if (!difference.empty()) {
    throw bad_input(report.string(), "", "changed after it was rendered: " + difference,
                    "`noisemark report` renders it again");
  }
  return result;
}

/// What lies at a path, found once: a folder's runs, or nothing yet of a file.
struct Place {
  std::string path;
  bool is_folder = false;
  FoundRuns found = {};
};

Place look_at(const std::string& path) {
  Place place{path, fs::is_directory(path)};
  if (place.is_folder) place.found = find_runs(path);
  return place;
}

/// A suite of which nothing can run here is something to compare, too.
bool holds_results(const Place& place) {
  if (!place.is_folder) return fs::exists(place.path);
  const std::vector<LostRun>& lost = place.found.lost;
  return !place.found.folders.empty() ||
         std::any_of(lost.begin(), lost.end(), [](const LostRun& run) { return run.skipped; });
}

// "2026-01-02T03:04:05Z", with a fraction of a second or without.
bool is_time(const std::string& text) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (text.size() <= kShape.size() || text.back() != 'Z') return false;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !digit : text[i] != kShape[i]) return false;
  }
  const auto part = [&](size_t at) { return std::stoi(text.substr(at, 2)); };
  return part(5) >= 1 && part(5) <= 12 && part(8) >= 1 && part(8) <= 31 && part(11) <= 23 &&
         part(14) <= 59 && part(17) <= 60;
}

constexpr std::chrono::minutes kMostSkew{5};  // of two machines that ask the same time servers

void refuse_future(const Side& side) {
  const std::string latest = utc_now(kMostSkew);
  for (const NamedResult& run : side.runs) {
    if (run.result.created_utc.substr(0, latest.size() - 1) <=
        latest.substr(0, latest.size() - 1)) {
      continue;
    }
    throw bad_input(run.name, "created_utc", run.result.created_utc + ", which has not come yet",
                    fmt::format("this machine's clock says {}", utc_now()));
  }
}

void check_runs(const std::vector<NamedResult>& runs) {
  std::map<std::string, std::string> seen;
  for (const NamedResult& run : runs) {
    if (!is_time(run.result.created_utc)) {
      throw bad_input(run.name, "created_utc", fmt::format("\"{}\"", run.result.created_utc),
                      "a time like 2026-01-02T03:04:05Z");
    }
    const auto [first, is_new] = seen.emplace(run.result.run_id, run.name);
    if (!is_new) {
      throw bad_input(run.name, "", fmt::format("the same run as {}", first->second), "");
    }
  }
}

/// Of a run that is kept as a baseline.
std::optional<BaselinePlace> baseline_place(const fs::path& run) {
  const fs::path variant = fs::absolute(run).lexically_normal().parent_path();
  if (!fs::exists(variant / "baseline.md")) return std::nullopt;
  const fs::path hardware = variant.parent_path().parent_path();
  const fs::path root = hardware.parent_path();
  return BaselinePlace{(run.is_absolute() ? root : fs::proximate(root)).string(),
                       hardware.filename().string()};
}

/// Where all of them are kept; empty when some are not, or elsewhere.
std::optional<BaselinePlace> common_place(const std::vector<fs::path>& runs) {
  std::optional<BaselinePlace> common;
  for (const fs::path& run : runs) {
    const auto place = baseline_place(run);
    if (!place || (common && *common != *place)) return std::nullopt;
    common = place;
  }
  return common;
}

Side read_place(Place place) {
  Side side{place.path, {}};
  if (fs::is_regular_file(place.path)) {
    const bool json = fs::path(place.path).extension() == ".json";
    side.runs.push_back({place.path, json ? read_result(place.path) : read_reported(place.path)});
  } else {
    FoundRuns& found = place.found;
    // Says why there is nothing.
    if (found.folders.empty() && found.lost.empty()) found.folders = result_folders(place.path);
    for (const fs::path& folder : found.folders) {
      side.runs.push_back({folder.string(), read_result(folder / "result.json")});
    }
    side.baseline = common_place(found.folders);
    side.lost = std::move(found.lost);
    side.left_out = std::move(found.left_out);
  }
  check_runs(side.runs);
  return side;
}

std::string device_kind(const Identity& id) {
  return id.device.substr(0, id.device.find(':'));
}

CellKey key_of(const Identity& id) {
  return {id.benchmark, id.scale,        id.mode,     id.baseline,
          id.precision, device_kind(id), id.framework};
}

std::map<CellKey, Runs> by_cell(const Side& side) {
  std::map<CellKey, Runs> cells;
  for (const NamedResult& run : side.runs) cells[key_of(run.result.identity)].push_back(&run);
  for (auto& [key, runs] : cells) {
    std::sort(runs.begin(), runs.end(), [](const NamedResult* a, const NamedResult* b) {
      return std::tie(a->result.seeds.base, a->result.created_utc, a->result.run_id) <
             std::tie(b->result.seeds.base, b->result.created_utc, b->result.run_id);
    });
  }
  return cells;
}

std::string lone_run(const std::string& cell, const char* side, const NamedResult& run) {
  return fmt::format("{}: run {} of {}, seed {}", cell, run.result.run_id, side,
                     run.result.seeds.base);
}

std::string seeds_of(const Runs& runs) {
  std::set<uint64_t> seeds;
  for (const NamedResult* run : runs) seeds.insert(run->result.seeds.base);
  return fmt::format("{}", fmt::join(seeds, ", "));
}

Cell pair_cell(const Runs& base, const Runs& candidate, Cells& cells) {
  Cell cell{cell_name(base.front()->result.identity), {}};
  size_t i = 0;
  size_t j = 0;
  while (i < base.size() || j < candidate.size()) {
    const bool base_left = i < base.size();
    const bool candidate_left = j < candidate.size();
    const bool same = base_left && candidate_left &&
                      base[i]->result.seeds.base == candidate[j]->result.seeds.base;
    if (same) {
      cell.pairs.emplace_back(base[i++], candidate[j++]);
    } else if (base_left &&
               (!candidate_left || base[i]->result.seeds.base < candidate[j]->result.seeds.base)) {
      cells.unpaired.push_back(lone_run(cell.name, "BASE", *base[i++]));
    } else {
      cells.unpaired.push_back(lone_run(cell.name, "NEW", *candidate[j++]));
    }
  }
  return cell;
}

}  // namespace

Side read_side(const std::string& path) {
  return read_place(look_at(path));
}

Side read_runs(const std::vector<std::string>& paths) {
  Side all{fmt::format("{}", fmt::join(paths, " ")), {}};
  for (const std::string& path : paths) {
    Side side = read_side(path);
    std::move(side.runs.begin(), side.runs.end(), std::back_inserter(all.runs));
    std::move(side.lost.begin(), side.lost.end(), std::back_inserter(all.lost));
    std::move(side.left_out.begin(), side.left_out.end(), std::back_inserter(all.left_out));
  }
  if (all.runs.empty()) throw bad_input(all.name, "", "no run with a result", "at least one");
  check_runs(all.runs);
  return all;
}

std::pair<Side, Side> read_sides(const std::string& base, const std::string& candidate) {
  Place place = look_at(base);
  if (!holds_results(place)) {
    throw Error(ExitCode::kBaselineNeeded,
                fmt::format("{}: no baseline: no result.json in it (make one with `noisemark run`, "
                            "or keep one with `noisemark baseline promote`)",
                            base));
  }
  std::error_code error;
  if (fs::equivalent(base, candidate, error)) {
    throw bad_input("compare", "", fmt::format("BASE and NEW are both {}", candidate),
                    "results of two builds; to see how far runs of one build differ, make them "
                    "twice");
  }
  std::pair<Side, Side> sides = {read_place(std::move(place)), read_side(candidate)};
  refuse_future(sides.first);
  refuse_future(sides.second);
  return sides;
}

std::string cell_name(const Identity& id) {
  return fmt::format("{}, mode {}, baseline {}, {}, {}{}", benchmark_name(id), id.mode, id.baseline,
                     id.precision, device_kind(id),
                     id.framework == "noisemark" ? "" : ", " + id.framework);
}

Cells pair_runs(const Side& base, const Side& candidate) {
  std::set<std::string> base_runs;
  for (const NamedResult& run : base.runs) base_runs.insert(run.result.run_id);
  for (const NamedResult& run : candidate.runs) {
    if (base_runs.contains(run.result.run_id)) {
      throw bad_input(run.name, "", fmt::format("run {} is on both sides", run.result.run_id), "");
    }
  }
  Cells cells;
  const std::map<CellKey, Runs> bases = by_cell(base);
  const std::map<CellKey, Runs> candidates = by_cell(candidate);
  for (const auto& [key, runs] : bases) {
    const auto other = candidates.find(key);
    if (other == candidates.end()) {
      cells.only_base.push_back(cell_name(runs.front()->result.identity));
      continue;
    }
    Cell cell = pair_cell(runs, other->second, cells);
    if (cell.pairs.empty()) {
      cells.without_pairs.push_back({cell.name, seeds_of(runs), seeds_of(other->second)});
    } else {
      cells.both.push_back(std::move(cell));
    }
  }
  for (const auto& [key, runs] : candidates) {
    if (!bases.contains(key)) {
      cells.only_candidate.push_back(cell_name(runs.front()->result.identity));
    }
  }
  return cells;
}

}  // namespace noisemark::reports
