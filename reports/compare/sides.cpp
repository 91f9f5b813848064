#include "reports/compare/sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/render/check.h"
#include "reports/render/report.h"
#include "reports/render/run_folder.h"
#include "reports/result/environment_changes.h"
#include "reports/result/json_io.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "result.json";

struct Entries {
  std::vector<fs::path> folders;   ///< folders in the order of their names
  std::vector<fs::path> dangling;  ///< links to nothing, which may have been runs
  bool any = false;
};

Entries entries_of(const fs::path& folder) {
  Entries entries;
  for (const fs::directory_entry& entry : read_folder(folder)) {
    entries.any = true;
    std::error_code unknown;
    const bool dangling = entry.is_symlink(unknown) && !entry.exists(unknown);
    const std::string name = entry.path().filename().string();
    const bool hidden = name.starts_with('.');  // editors name their locks so
    if (dangling && !hidden && name != kResult) entries.dangling.push_back(entry.path());
    if (entry.is_symlink() || !entry.is_directory() || is_of_a_replacement(entry.path())) continue;
    entries.folders.push_back(entry.path());
  }
  std::sort(entries.folders.begin(), entries.folders.end());
  return entries;
}

class Search {
 public:
  /// The empty name behind a last slash is left out, so that names below are those of folders.
  explicit Search(const fs::path& root) : root_(root.has_filename() ? root : root.parent_path()) {}

  FoundRuns find() {
    look_into(root_, false);
    for (auto& [name, run] : lost_) found_.lost.push_back(std::move(run));
    return std::move(found_);
  }

 private:
  /// One below the root that cannot be read is missing, or a note where it is a run's own folder.
  void visit(const fs::path& folder, bool inside_run) {
    std::vector<Finding> unreadable;
    or_lost(folder, &unreadable, [&] { look_into(folder, inside_run); });
    for (const Finding& one : unreadable) {
      if (inside_run) {
        found_.left_out.push_back(fmt::format("{}: {}", name_of(folder), one.words));
      } else {
        lose(folder, one.words);
      }
    }
  }

  void look_into(const fs::path& folder, bool inside_run) {
    if (folder != root_ && is_staged_baseline(folder)) return lose(folder, kStagedWords);
    const Entries entries = entries_of(folder);
    const bool result = fs::exists(folder / kResult);
    if (result) add_result(folder);
    if (result && folder == root_) return;
    const bool expected = !result && !inside_run && folder != root_;
    if (expected && (!entries.any || is_begun_run(folder))) {
      lose(folder, entries.any ? kBegun : "its folder is empty");
    }
    const auto suite = read_suite(folder);
    if (suite) lose_runs_of(folder, *suite);
    if (!result && !inside_run) {
      for (const fs::path& link : entries.dangling) lose(link, std::string(kLinkToNothing));
    }
    for (const fs::path& below : entries.folders) {
      suites_.push_back(suite ? std::optional(std::pair(folder, *suite)) : std::nullopt);
      visit(below, inside_run || result);
      suites_.pop_back();
    }
  }

  /// Adds a run to the suite that lies nearest above, if any.
  void add_result(const fs::path& folder) {
    for (auto at = suites_.rbegin(); at != suites_.rend(); ++at) {
      if (!*at) continue;
      const auto& [place, suite] = **at;
      const std::string name = folder.lexically_relative(place).generic_string();
      if (std::find(suite.names.begin(), suite.names.end(), name) == suite.names.end()) {
        found_.left_out.push_back(name_of(folder) + ": of no run of the suite that lies there");
      } else if (!is_lost(folder)) {
        found_.folders.push_back(folder);
      }
      return;
    }
    found_.folders.push_back(folder);
  }

  void lose_runs_of(const fs::path& place, const Suite& suite) {
    for (const SuiteRun& run : suite_runs(place, suite)) {
      if (!run.lost.empty()) lose(place / run.name, run.lost);
    }
  }

  /// The first reason stands: a suite knows more than its folders show.
  void lose(const fs::path& folder, const std::string& why) {
    const std::string name = name_of(folder);
    lost_.emplace(name,
                  LostRun{name, why, why.starts_with(error_status(ExitCode::kCannotRunHere))});
  }

  [[nodiscard]] bool is_lost(const fs::path& folder) const {
    return lost_.contains(name_of(folder));
  }

  [[nodiscard]] std::string name_of(const fs::path& folder) const {
    return folder.lexically_relative(root_).generic_string();
  }

  fs::path root_;
  FoundRuns found_;
  std::map<std::string, LostRun> lost_;
  std::vector<std::optional<std::pair<fs::path, Suite>>> suites_;  ///< one per folder above
};

}  // namespace

bool is_staged_baseline(const fs::path& folder) {
  return folder.extension() == kStagedBaseline && is_named(folder / kBaselinePage);
}

FoundRuns find_runs(const fs::path& folder) {
  return Search(folder).find();
}

namespace {

using Runs = std::vector<const NamedResult*>;
using CellKey = std::tuple<std::string, std::string, std::string, std::string, std::string,
                           std::string, std::string, std::string>;

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
  const std::string difference = report_difference(
      words, result, mark->result_sha256, read_insight(report.parent_path(), mark->result_sha256));
  if (!difference.empty()) {
    throw bad_input(report.string(), "", "changed after it was rendered: " + difference,
                    "`noisemark report` renders it again");
  }
  return result;
}

/// The runs that lie at a path, found once; of a file none yet.
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

constexpr std::chrono::minutes kMostSkew{5};  // skew of two machines that ask the same time servers

/// Errors of several results, so that a user learns of all at once.
class Refusals {
 public:
  void add(Error error) { all_.push_back(std::move(error)); }

  /// Adds the error of what is done.
  template <typename Action>
  void note(const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      all_.push_back(error);
    }
  }

  /// Throws all in one, with the exit code of the first, where there are any, and names the runs
  /// beside them that are lost.
  void tell(const std::vector<std::string>& lost = {}) const {
    if (all_.empty()) return;
    std::vector<std::string> words;
    for (const Error& one : all_) words.emplace_back(one.what());
    words.insert(words.end(), lost.begin(), lost.end());
    throw Error(all_.front().code(), fmt::format("{}", fmt::join(words, "; ")));
  }

 private:
  std::vector<Error> all_;
};

/// Names every lost run of a side whose folder is its name.
std::vector<std::string> words_of_lost(const Side& side) {
  std::vector<std::string> words;
  for (const LostRun& run : side.lost) {
    if (!run.skipped) {
      words.push_back(fmt::format("{}: {}", (fs::path(side.name) / run.name).string(), run.why));
    }
  }
  return words;
}

std::vector<std::string> words_of_lost(const Side& base, const Side& candidate) {
  std::vector<std::string> words = words_of_lost(base);
  const std::vector<std::string> more = words_of_lost(candidate);
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void refuse_future(const Side& side, Refusals& refusals) {
  const std::string latest = utc_now(kMostSkew);
  for (const NamedResult& run : side.runs) {
    if (run.result.created_utc.substr(0, latest.size() - 1) <=
        latest.substr(0, latest.size() - 1)) {
      continue;
    }
    refusals.add(bad_input(run.name, "created_utc",
                           run.result.created_utc + ", which has not come yet",
                           fmt::format("this machine's clock says {}", utc_now())));
  }
}

void check_runs(const std::vector<NamedResult>& runs, Refusals& refusals) {
  std::map<std::string, std::string> seen;
  for (const NamedResult& run : runs) {
    if (!is_utc(run.result.created_utc)) {
      refusals.add(bad_input(run.name, "created_utc", fmt::format("\"{}\"", run.result.created_utc),
                             kTimeForm));
      continue;
    }
    const auto [first, is_new] = seen.emplace(run.result.run_id, run.name);
    if (!is_new) {
      refusals.add(bad_input(run.name, "", fmt::format("the same run as {}", first->second), ""));
    }
  }
}

/// Returns the place of a run that is kept as a baseline.
std::optional<BaselinePlace> baseline_place(const fs::path& run) {
  const fs::path variant = fs::absolute(run).lexically_normal().parent_path();
  if (!fs::exists(variant / kBaselinePage)) return std::nullopt;
  const fs::path hardware = variant.parent_path().parent_path();
  const fs::path root = hardware.parent_path();
  return BaselinePlace{(run.is_absolute() ? root : fs::proximate(root)).string(),
                       hardware.filename().string()};
}

/// Returns the place where all of them are kept; empty when some are not, or elsewhere.
std::optional<BaselinePlace> common_place(const std::vector<fs::path>& runs) {
  std::optional<BaselinePlace> common;
  for (const fs::path& run : runs) {
    const auto place = baseline_place(run);
    if (!place || (common && *common != *place)) return std::nullopt;
    common = place;
  }
  return common;
}

/// A result below the root that cannot be read is missing.
void read_run(const fs::path& root, const fs::path& folder, Broken broken, Side& side) {
  const fs::path file = folder / kResult;
  const std::string name = folder.lexically_proximate(root).generic_string();
  std::string text;
  std::vector<Finding> unreadable;
  std::vector<Finding>* const lost = name == "." ? nullptr : &unreadable;
  or_lost(file, lost, [&] { text = read_file(file); });
  if (unreadable.empty()) {
    or_lost(file, broken == Broken::kIsLost ? lost : nullptr, [&] {
      side.runs.push_back({folder.string(), from_json(text, file.string())});
    });
  }
  for (const Finding& one : unreadable) side.lost.push_back({name, one.words, false, one.code});
}

Side read_place(Place place, Broken broken) {
  Side side{place.path, {}};
  Refusals refusals;
  if (fs::is_regular_file(place.path)) {
    const bool json = fs::path(place.path).extension() == ".json";
    side.runs.push_back({place.path, json ? read_result(place.path) : read_reported(place.path)});
  } else {
    FoundRuns& found = place.found;
    // This throws an error that says why there is nothing.
    if (found.folders.empty() && found.lost.empty()) found.folders = result_folders(place.path);
    for (const fs::path& folder : found.folders) {
      refusals.note([&] { read_run(place.path, folder, broken, side); });
    }
    side.baseline = common_place(found.folders);
    std::move(found.lost.begin(), found.lost.end(), std::back_inserter(side.lost));
    side.left_out = std::move(found.left_out);
  }
  check_runs(side.runs, refusals);
  refusals.tell(words_of_lost(side));
  return side;
}

CellKey key_of(const Identity& id) {
  return {id.benchmark, id.scale,         id.mode,      id.baseline,
          id.precision, id.device_kind(), id.framework, id.reduction};
}

std::map<CellKey, Runs> by_cell(const Side& side) {
  std::map<CellKey, Runs> cells;
  for (const NamedResult& run : side.runs) cells[key_of(run.result.identity)].push_back(&run);
  for (auto& [key, runs] : cells) sort_by_seed(runs);
  return cells;
}

std::string seeds_of(const Runs& runs) {
  std::set<uint64_t> seeds;
  for (const NamedResult* run : runs) seeds.insert(run->result.seeds.base);
  return fmt::format("{}", fmt::join(seeds, ", "));
}

Cell pair_cell(const Runs& base, const Runs& candidate, Cells& cells) {
  // Work of one's own on either side takes the official name from both.
  const Identity& custom = candidate.front()->result.identity;
  Cell cell{cell_name(custom.custom ? custom : base.front()->result.identity), {}};
  cell.pairs = pair_by_seed(base, candidate, [&](const NamedResult& run, bool is_base) {
    cells.unpaired.push_back(fmt::format("{}: run {} of {}, seed {}", cell.name, run.result.run_id,
                                         is_base ? "BASE" : "NEW", run.result.seeds.base));
  });
  return cell;
}

}  // namespace

std::vector<LostRun> by_reason(const std::vector<LostRun>& runs) {
  constexpr size_t kMostNamed = 3;
  std::vector<std::vector<LostRun>> groups;
  for (const LostRun& run : runs) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& one) {
      const LostRun& first = one.front();
      return first.why == run.why && first.code == run.code && first.skipped == run.skipped;
    });
    if (group == groups.end()) {
      groups.push_back({run});
    } else {
      group->push_back(run);
    }
  }
  std::vector<LostRun> all;
  for (const std::vector<LostRun>& group : groups) {
    if (group.size() <= kMostNamed) {
      all.insert(all.end(), group.begin(), group.end());
      continue;
    }
    LostRun gathered = group.front();
    gathered.name = fmt::format("{} runs ({}, {}, {} and {} more)", group.size(), group[0].name,
                                group[1].name, group[2].name, group.size() - kMostNamed);
    all.push_back(std::move(gathered));
  }
  return all;
}

Side read_side(const std::string& path, Broken broken) {
  return read_place(look_at(path), broken);
}

Side read_runs(const std::vector<std::string>& paths, Broken broken) {
  Side all{fmt::format("{}", fmt::join(paths, " ")), {}};
  Refusals refusals;
  std::vector<std::string> lost_words;
  for (const std::string& path : paths) {
    Side side;
    std::vector<Finding> lost;
    const bool passed_over = broken == Broken::kIsLost && paths.size() > 1;
    refusals.note([&] {
      or_lost(path, passed_over ? &lost : nullptr, [&] { side = read_side(path, broken); });
    });
    for (const Finding& one : lost) {
      all.lost.push_back({path, one.words, false, one.code});
      lost_words.push_back(fmt::format("{}: {}", path, one.words));
    }
    const std::vector<std::string> inside = words_of_lost(side);
    lost_words.insert(lost_words.end(), inside.begin(), inside.end());
    std::move(side.runs.begin(), side.runs.end(), std::back_inserter(all.runs));
    std::move(side.lost.begin(), side.lost.end(), std::back_inserter(all.lost));
    std::move(side.left_out.begin(), side.left_out.end(), std::back_inserter(all.left_out));
  }
  check_runs(all.runs, refusals);
  refuse_future(all, refusals);
  refusals.tell(lost_words);
  if (all.runs.empty()) throw bad_input(all.name, "", "no run with a result", "at least one");
  return all;
}

std::pair<Side, Side> read_sides(const std::string& base, const std::string& candidate) {
  Place place = look_at(base);
  if (!holds_results(place)) {
    std::error_code unknown;
    const bool there = fs::exists(base, unknown);
    throw Error(ExitCode::kBaselineNeeded,
                fmt::format("{}: {} (a result.json, its report.md or a folder of results, which "
                            "`noisemark run` makes and `noisemark baseline promote` keeps)",
                            base, there ? "no result.json in it" : "not there"));
  }
  std::error_code error;
  if (fs::equivalent(base, candidate, error)) {
    throw bad_input("compare", "", fmt::format("BASE and NEW are both {}", candidate),
                    "results of two builds; to see how far runs of one build differ, make them "
                    "twice");
  }
  std::pair<Side, Side> sides;
  Refusals refusals;
  refusals.note([&] { sides.first = read_place(std::move(place), Broken::kIsRefused); });
  refusals.note([&] { sides.second = read_side(candidate); });
  refuse_future(sides.first, refusals);
  refuse_future(sides.second, refusals);
  refusals.tell(words_of_lost(sides.first, sides.second));
  return sides;
}

void sort_by_seed(std::vector<const NamedResult*>& runs) {
  std::sort(runs.begin(), runs.end(), [](const NamedResult* a, const NamedResult* b) {
    return std::tie(a->result.seeds.base, a->result.created_utc, a->result.run_id) <
           std::tie(b->result.seeds.base, b->result.created_utc, b->result.run_id);
  });
}

std::vector<RunPair> pair_by_seed(
    const std::vector<const NamedResult*>& base, const std::vector<const NamedResult*>& candidate,
    const std::function<void(const NamedResult& run, bool is_base)>& alone) {
  const auto seed_of = [](const NamedResult* run) { return run->result.seeds.base; };
  std::vector<RunPair> pairs;
  auto a = base.begin();
  auto b = candidate.begin();
  while (a != base.end() || b != candidate.end()) {
    const bool both = a != base.end() && b != candidate.end();
    if (both && seed_of(*a) == seed_of(*b)) {
      pairs.emplace_back(*a++, *b++);
    } else if (both ? seed_of(*a) < seed_of(*b) : a != base.end()) {
      alone(**a++, true);
    } else {
      alone(**b++, false);
    }
  }
  return pairs;
}

std::string cell_name(const Identity& id) {
  std::string name =
      fmt::format("{}, mode {}, baseline {}, {}, {}{}{}", benchmark_name(id), id.mode, id.baseline,
                  id.precision, id.device_kind(), id.is_own() ? "" : ", " + id.framework,
                  id.reduction.empty() ? "" : ", reduced in " + id.reduction);
  if (!id.custom) return name;
  // A file of one's own has no words that tell it from another, or from its next state.
  const std::string digest = id.overrides.empty() ? shown_digits(id.definition_sha256) : "";
  return fmt::format("{}, {}{}{}", name, custom_words(id), digest.empty() ? "" : " ", digest);
}

Cells pair_runs(const Side& base, const Side& candidate) {
  std::set<std::string> base_runs;
  for (const NamedResult& run : base.runs) base_runs.insert(run.result.run_id);
  Refusals refusals;
  for (const NamedResult& run : candidate.runs) {
    if (!base_runs.contains(run.result.run_id)) continue;
    refusals.note([&] {
      throw bad_input(run.name, "", fmt::format("run {} is on both sides", run.result.run_id), "");
    });
  }
  refusals.tell(words_of_lost(base, candidate));
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

namespace {

constexpr const char* kSoftware = "identity.software.";

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

void add(Strings& fields, const std::string& prefix, const Strings& values) {
  for (const auto& [name, value] : values) fields[prefix + name] = value;
}

/// All that runs of one side have under a name.
using Values = std::map<std::string, std::set<std::string>>;

void add_settings(const Result& result, Values& values) {
  for (const auto& [name, value] : settings_of(result.environment)) values[name].insert(value);
}

Strings texts_of(const Values& values) {
  Strings fields;
  for (const auto& [name, all] : values) fields[name] = fmt::format("{}", fmt::join(all, "; "));
  return fields;
}

/// Runs of one seed must agree in the initial weights too.
std::vector<FieldDifference> run_differences(const Result& a, const Result& b,
                                             const std::string& cell) {
  Strings of_a = identity_fields(a);
  Strings of_b = identity_fields(b);
  if (a.seeds.base == b.seeds.base) {
    const std::string field = fmt::format("provenance.init_weights_sha256 (seed {})", a.seeds.base);
    of_a[field] = a.provenance.init_weights_sha256;
    of_b[field] = b.provenance.init_weights_sha256;
  }
  return differing_fields(of_a, of_b, cell);
}

}  // namespace

std::vector<FieldDifference> differing_fields(const Strings& a, const Strings& b,
                                              const std::string& cell) {
  std::set<std::string> names;
  for (const Strings* side : {&a, &b}) {
    for (const auto& [name, value] : *side) names.insert(name);
  }
  std::vector<FieldDifference> differences;
  for (const std::string& name : names) {
    const bool both = a.contains(name) && b.contains(name);
    if (both && a.at(name) == b.at(name)) continue;
    differences.push_back({cell, name, text_of(a, name), text_of(b, name)});
  }
  return differences;
}

std::string first_of(const std::vector<FieldDifference>& differences) {
  if (differences.empty()) return "";
  const std::string& first = differences.front().field;
  return differences.size() == 1 ? first
                                 : fmt::format("{} and {} more", first, differences.size() - 1);
}

Strings identity_fields(const Result& result) {
  const Identity& id = result.identity;
  Strings fields = {{"identity.version", std::to_string(id.version)},
                    {"identity.custom", yes_no(id.custom)},
                    {"identity.overrides", fmt::format("{}", fmt::join(id.overrides, " "))},
                    {"identity.definition_sha256", id.definition_sha256},
                    {"identity.threads", std::to_string(id.threads)},
                    {"identity.data", id.data},
                    {"protocol.deterministic", yes_no(result.protocol.deterministic)},
                    {"protocol.loader_threads", std::to_string(result.protocol.loader_threads)}};
  if (id.ranks) fields["identity.ranks"] = std::to_string(*id.ranks);
  if (!id.backend.empty()) fields["identity.backend"] = id.backend;
  if (!id.shards.empty()) fields["identity.shards"] = id.shards;
  if (!id.pipeline.empty()) fields["identity.pipeline"] = id.pipeline;
  if (id.micro_batches) fields["identity.micro_batches"] = std::to_string(*id.micro_batches);
  add(fields, "identity.hardware.", id.hardware);
  add(fields, kSoftware, id.software);
  for (const DataFile& file : result.provenance.data) {
    if (is_left_out(file)) continue;
    fields["provenance.data." + file.name] = file.sha256;
  }
  return fields;
}

std::vector<FieldDifference> identity_differences(const Cell& cell) {
  std::map<std::string, FieldDifference> found;
  const auto compare = [&](const Result& a, const Result& b) {
    for (FieldDifference& difference : run_differences(a, b, cell.name)) {
      found.emplace(difference.field, std::move(difference));
    }
  };
  const Result& first = cell.pairs.front().first->result;
  for (const auto& [base, candidate] : cell.pairs) {
    compare(base->result, candidate->result);
    compare(first, base->result);
    compare(first, candidate->result);
  }
  std::vector<FieldDifference> differences;
  for (const auto& [name, difference] : found) differences.push_back(difference);
  return differences;
}

std::vector<FieldDifference> environment_differences(const std::vector<Cell>& cells) {
  Values base;
  Values candidate;
  for (const Cell& cell : cells) {
    for (const RunPair& pair : cell.pairs) {
      add_settings(pair.first->result, base);
      add_settings(pair.second->result, candidate);
    }
  }
  return differing_fields(texts_of(base), texts_of(candidate));
}

std::vector<FieldDifference> cell_differences(const Identity& base, const Identity& candidate) {
  const auto fields = [](const Identity& id) {
    return Strings{{"identity.benchmark", id.benchmark}, {"identity.scale", id.scale},
                   {"identity.mode", id.mode},           {"identity.baseline", id.baseline},
                   {"identity.precision", id.precision}, {"identity.device", id.device},
                   {"identity.framework", id.framework}, {"identity.reduction", id.reduction}};
  };
  return differing_fields(fields(base), fields(candidate));
}

Strings same_work(const Result& result) {
  Strings fields = identity_fields(result);
  std::erase_if(fields, [](const auto& field) { return field.first.starts_with(kSoftware); });
  fields["cell"] = cell_name(result.identity);
  fields["seeds.base"] = std::to_string(result.seeds.base);
  fields["provenance.init_weights_sha256"] = result.provenance.init_weights_sha256;
  return fields;
}

Strings about_build(const Result& result) {
  const Provenance& from = result.provenance;
  Strings fields = {{"binary_sha256", from.binary_sha256},
                    {"commit", from.commit()},
                    {"diff_sha256", from.git_diff_sha256}};
  for (const auto& [name, value] : result.identity.software) fields["software." + name] = value;
  for (const auto& [name, value] : from.build) fields["build." + name] = value;
  return fields;
}

}  // namespace noisemark::reports
