#include "reports/references/promote.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/base/statistics.h"
#include "reports/compare/compare.h"
#include "reports/compare/inference.h"
#include "reports/compare/sides.h"
#include "reports/render/check.h"
#include "reports/render/report.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "result.json";
constexpr const char* kEvents = "events.mlog";

struct BaselineCell {
  std::string name;                      ///< cell_name()
  std::vector<const NamedResult*> runs;  ///< runs in the order of seed, then of creation
};

void check_run(const NamedResult& run) {
  const Result& result = run.result;
  const auto refuse = [&](const std::string& why) {
    return bad_input(run.name, "", why, "a run that makes a baseline");
  };
  if (result.identity.custom) throw refuse("its definition was changed");
  if (result.exit.code != static_cast<int>(ExitCode::kPass)) {
    throw refuse("it did not pass: " + result.exit.status);
  }
  if (result.identity.data == "unofficial") throw refuse("it trained on unofficial data");
}

void check_identity(const BaselineCell& cell) {
  const Strings first = identity_fields(cell.runs.front()->result);
  for (const NamedResult* run : cell.runs) {
    std::vector<std::string> differ;
    for (const FieldDifference& found : differing_fields(first, identity_fields(run->result))) {
      differ.push_back(found.field);
    }
    if (differ.empty()) continue;
    throw bad_input(
        run->name, cell.name,
        fmt::format("it differs from {} in {}", cell.runs.front()->name, fmt::join(differ, ", ")),
        "runs of one identity");
  }
}

/// Figures without noise must be the same in runs of one seed.
void check_exact(const BaselineCell& cell) {
  std::map<std::pair<std::string, uint64_t>, std::pair<double, const NamedResult*>> first;
  for (const NamedResult* run : cell.runs) {
    for (const std::string& name : exact_metrics()) {
      const std::optional<double> value = metric_value(run->result, name);
      if (!value) continue;
      const auto [known, is_new] =
          first.emplace(std::pair(name, run->result.seeds.base), std::pair(*value, run));
      if (is_new || known->second.first == *value) continue;
      throw bad_input(run->name, name,
                      fmt::format("{} here and {} in {}", *value, known->second.first,
                                  known->second.second->name),
                      "a figure without noise is the same in runs of one seed");
    }
  }
}

void check_gated(const BaselineCell& cell, const std::string& name) {
  size_t values = 0;
  for (const NamedResult* run : cell.runs) {
    const std::optional<double> value = metric_value(run->result, name);
    if (!value) continue;
    ++values;
    if (*value > 0) continue;
    throw Error(ExitCode::kBaselineNeeded,
                fmt::format("{}: {}: {} makes no stored baseline", run->name, name, *value));
  }
  if (values == cell.runs.size()) return;
  if (values == 0) {
    throw Error(ExitCode::kBaselineNeeded,
                fmt::format("{}: no run has a value of {}", cell.name, name));
  }
  throw bad_input(cell.name, name,
                  fmt::format("{} of {} runs have a value", values, cell.runs.size()),
                  "all of them");
}

/// The cells of these runs, by name. Throws Error (bad input) for a cell that makes no baseline,
/// and says why: too few runs; runs of several identities, with the fields that differ; a run that
/// did not pass, was custom, or trained on unofficial data; figures without noise that differ
/// between runs of one seed; a gated figure that only some runs have. Throws Error («baseline
/// needed», exit code 5) for one that is zero, negative or has no value in any run.
std::vector<BaselineCell> baseline_cells(const Side& side) {
  std::map<std::string, BaselineCell> cells;
  for (const NamedResult& run : side.runs) {
    check_run(run);
    BaselineCell& cell = cells[cell_name(run.result.identity)];
    cell.name = cell_name(run.result.identity);
    cell.runs.push_back(&run);
  }
  std::vector<BaselineCell> all;
  for (auto& [name, cell] : cells) {
    sort_by_seed(cell.runs);
    check_identity(cell);
    if (static_cast<int64_t>(cell.runs.size()) < kFewestBaselineRuns) {
      throw bad_input(name, "", format_counted(static_cast<int64_t>(cell.runs.size()), "run"),
                      fmt::format("at least {}", kFewestBaselineRuns));
    }
    check_exact(cell);
    for (const MetricRow& gate : gated_metrics()) check_gated(cell, std::string(gate.name));
    all.push_back(std::move(cell));
  }
  return all;
}

/// Says what a reviewer should know though it is no reason to refuse: changes that were not
/// committed, several commits. One sentence each.
std::vector<std::string> flags_of(const BaselineCell& cell) {
  std::vector<std::string> flags;
  std::set<std::string> commits;
  size_t dirty = 0;
  size_t unknown = 0;
  for (const NamedResult* run : cell.runs) {
    const Provenance& from = run->result.provenance;
    if (!from.git_commit.empty()) commits.insert(shown_digits(from.git_commit));
    dirty += from.git_dirty ? 1 : 0;
    unknown += from.git_commit.empty() ? 1 : 0;
  }
  if (dirty > 0) {
    flags.push_back(fmt::format("{} of {} runs were built with changes that are in no commit",
                                dirty, cell.runs.size()));
  }
  if (unknown > 0) {
    flags.push_back(fmt::format("{} of {} runs name no commit", unknown, cell.runs.size()));
  }
  if (commits.size() > 1) {
    flags.push_back(fmt::format("the runs are of several commits: {}", fmt::join(commits, " ")));
  }
  return flags;
}

std::vector<std::string> metrics() {
  std::vector<std::string> names;
  for (const MetricRow& gate : gated_metrics()) names.emplace_back(gate.name);
  for (const MetricRow& row : metric_table()) {
    if (row.followed && row.rule != MetricRule::kGated) names.emplace_back(row.name);
  }
  return names;
}

std::string value_cell(const Result& result, const std::string& name) {
  const Metric* metric = find_metric(result, name);
  return metric == nullptr ? std::string(kMissing) : quantity_cell(metric->value, metric->unit);
}

std::string runs(const BaselineCell& cell) {
  std::vector<MarkdownTable::Column> columns = {
      {"run"}, {"date"}, {"commit"}, {"seed", Align::kRight}};
  for (const std::string& name : metrics()) columns.push_back({name, Align::kRight});
  MarkdownTable table(columns);
  for (const NamedResult* run : cell.runs) {
    const Result& result = run->result;
    const Provenance& from = result.provenance;
    std::vector<std::string> row = {result.run_id, result.created_utc, from.shown_commit(),
                                    std::to_string(result.seeds.base)};
    for (const std::string& name : metrics()) row.push_back(value_cell(result, name));
    table.add_row(row);
  }
  return table.text();
}

std::string spread(const BaselineCell& cell) {
  MarkdownTable table({{"metric"},
                       {"median", Align::kRight},
                       {"least", Align::kRight},
                       {"greatest", Align::kRight},
                       {"greatest / least", Align::kRight}});
  for (const std::string& name : metrics()) {
    std::vector<double> values;
    std::string unit;
    for (const NamedResult* run : cell.runs) {
      const Metric* metric = find_metric(run->result, name);
      if (metric == nullptr || !metric->value) continue;
      values.push_back(*metric->value);
      unit = metric->unit;
    }
    if (values.empty()) continue;
    const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
    table.add_row({name, format_quantity(median(values), unit), format_quantity(*least, unit),
                   format_quantity(*greatest, unit),
                   *least > 0 ? fmt::format("{:.4f}", *greatest / *least) : ""});
  }
  return table.text();
}

std::string reach(const BaselineCell& cell) {
  const double alpha = StochasticOptions().alpha;
  const auto gates = static_cast<int64_t>(gated_metrics().size());
  const int64_t fewest = fewest_pairs(alpha, gates);
  const auto count = static_cast<int64_t>(cell.runs.size());
  if (count >= fewest) {
    return fmt::format(
        "{} runs are enough for {} gates at alpha {}, beside as many of NEW. They were not made in "
        "turns with NEW, so a gate with noise needs `compare --calibration`.\n",
        count, gates, format_number(alpha));
  }
  return fmt::format(
      "Figures without noise can be judged by this stored baseline: `compare --exact`. Its {} "
      "gates with noise can never reach alpha {} with {} runs: {} are needed.\n",
      gates, format_number(alpha), count, fewest);
}

/// A baseline for a reviewer: its runs with commit, date and seed, the gated figures and how far
/// runs differ, what to know, and what so many runs can judge. A pure function, byte for byte.
std::string baseline_markdown(const BaselineCell& cell) {
  std::string text = fmt::format("# Stored baseline: {}\n", plain(cell.name));
  const std::vector<std::string> flags = flags_of(cell);
  if (!flags.empty()) text += '\n';
  for (const std::string& flag : flags) text += fmt::format("- **To know**: {}.\n", plain(flag));
  return finished_page(
      text + fmt::format("\n{}\n{}\n{}{}", reach(cell), runs(cell), spread(cell), kGlossaryLine));
}

std::string folder_name(std::string text) {
  for (char& c : text) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                      std::string_view("@+=.,_-").find(c) != std::string_view::npos;
    if (!kept) c = '-';
  }
  return text;
}

/// Lower case, words joined by one dash, without trade marks and rates.
std::string model_name(const std::string& model) {
  std::string words;
  for (size_t i = 0; i < model.size() && model[i] != '@'; ++i) {
    if (model[i] == '(') i = std::min(model.find(')', i), model.size() - 1);
    const auto c = static_cast<unsigned char>(model[i]);
    if (std::isalnum(c) != 0) {
      words += static_cast<char>(std::tolower(c));
    } else if (!words.empty() && words.back() != '-') {
      words += '-';
    }
  }
  while (!words.empty() && words.back() == '-') words.pop_back();
  return words.empty() ? "unknown" : words;
}

}  // namespace

std::string hardware_folder(const Identity& id) {
  if (id.device_kind() == "cuda") return model_name(text_of(id.hardware, "gpu_model"));
  return fmt::format("{}-{}-{}", model_name(text_of(id.hardware, "cpu_model")), id.threads,
                     id.threads == 1 ? "thread" : "threads");
}

std::string cell_folder(const Identity& id) {
  return fmt::format(
      "{}/{}", folder_name(benchmark_name(id)),
      folder_name(fmt::format("{}-{}-{}-{}{}{}", id.mode, id.baseline, id.precision,
                              id.device_kind(), id.is_own() ? "" : "-" + id.framework,
                              id.reduction.empty() ? "" : "-" + id.reduction + "-reduced")));
}

namespace {

/// The folder of a run, wherever its side was told to look for it.
fs::path result_file(const NamedResult& run) {
  const fs::path path = run.name;
  return fs::is_directory(path)                 ? path / kResult
         : path.filename().extension() == ".md" ? path.parent_path() / kResult
                                                : path;
}

/// Returns the files that are kept of a run, by name: its result, and the events that the result
/// lists, which check() would miss.
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

/// The place where a cell goes, and the files of an earlier baseline there.
struct Place {
  const BaselineCell* cell = nullptr;
  fs::path folder;
  std::vector<fs::path> earlier;  ///< folders of runs
};

/// Behind a link lies what is not the baseline's own, and a rename would replace the link.
void require_no_link(const fs::path& path) {
  std::error_code unknown;
  if (!fs::is_symlink(path, unknown)) return;
  throw bad_input(path.string(), "", "is a link", "a stored baseline is no link and has none");
}

/// Returns whether a folder holds a run, or at most what a killed promotion had put of one.
bool is_earlier_run(const fs::path& folder) {
  if (is_named(folder / kResult)) return true;
  if (fs::is_symlink(folder) || !fs::is_directory(folder)) return false;
  const auto entries = read_folder(folder);
  return std::all_of(entries.begin(), entries.end(),
                     [](const auto& entry) { return entry.path().filename() == kEvents; });
}

Place place_of(const BaselineCell& cell, const PromoteOptions& options) {
  const Identity& id = cell.runs.front()->result.identity;
  const std::string hardware = options.hardware.empty() ? hardware_folder(id) : options.hardware;
  Place place{&cell, options.into / hardware / cell_folder(id), {}};
  require_no_link(place.folder);
  if (!fs::exists(place.folder)) return place;
  require_no_link(place.folder / kBaselinePage);
  for (const fs::directory_entry& entry : read_folder(place.folder)) {
    if (is_earlier_run(entry.path())) place.earlier.push_back(entry.path());
  }
  for (const NamedResult* run : cell.runs) require_no_link(place.folder / run->result.run_id);
  for (const fs::path& folder : place.earlier) {
    for (const fs::path& path : {folder, folder / kResult, folder / kEvents}) require_no_link(path);
  }
  std::sort(place.earlier.begin(), place.earlier.end());
  const bool free = place.earlier.empty() && !fs::exists(place.folder / kBaselinePage);
  if (!free && !options.force) {
    throw bad_input(place.folder.string(), "", "there is a baseline already",
                    "--force replaces it");
  }
  return place;
}

/// The files by name, of runs by their names.
using FilesOfRuns = std::map<std::string, std::map<std::string, std::string>>;

/// A folder beside a place with all that is to be in it. What is in the place stays as it was, also
/// where this cannot be written, on a full disk for example. The folder goes with this.
class StagedPlace {
 public:
  explicit StagedPlace(const Place& place) : place_(place), staged_(place.folder) {
    staged_ += kStagedBaseline;
    fs::remove_all(staged_);
    for (const NamedResult* run : place.cell->runs) runs_[run->result.run_id] = files_of(*run);
    try {
      write();
    } catch (...) {
      remove();
      throw;
    }
  }
  ~StagedPlace() { remove(); }
  StagedPlace(StagedPlace&& other) noexcept
      : place_(other.place_),
        staged_(std::exchange(other.staged_, {})),
        runs_(std::move(other.runs_)) {}
  StagedPlace& operator=(StagedPlace&&) = delete;

  void put(Promotion& promotion) const {
    for (const auto& [run_id, files] : runs_) {
      make_folder(place_.folder / run_id);
      for (const auto& [name, text] : files) put_file(fs::path(run_id) / name, promotion);
    }
    for (const fs::path& folder : place_.earlier) {
      if (runs_.contains(folder.filename().string())) continue;
      if (fs::exists(folder / kResult)) promotion.removed.push_back(folder / kResult);
      fs::remove_all(folder);
    }
    put_file(kBaselinePage, promotion);
  }

 private:
  /// The page comes first and is put last: is_staged_baseline() at every moment between.
  void write() const {
    make_folder(staged_);
    write_file_atomically(staged_ / kBaselinePage, baseline_markdown(*place_.cell));
    for (const auto& [run_id, files] : runs_) {
      make_folder(staged_ / run_id);
      for (const auto& [name, text] : files) write_file_atomically(staged_ / run_id / name, text);
    }
  }
  void remove() const {
    std::error_code ignored;
    if (!staged_.empty()) fs::remove_all(staged_, ignored);
  }
  void put_file(const fs::path& name, Promotion& promotion) const {
    fs::rename(staged_ / name, place_.folder / name);
    promotion.written.push_back(place_.folder / name);
  }

  const Place& place_;
  fs::path staged_;
  FilesOfRuns runs_;
};

std::string list(const char* heading, const std::vector<fs::path>& files) {
  if (files.empty()) return "";
  std::string text = fmt::format("{}:\n", heading);
  for (const fs::path& file : files) text += fmt::format("  {}\n", file.string());
  return text;
}

/// Finds files that a reader of the folder might take for part of the baseline.
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
  const FolderLock lock(options.into);
  const Side side = read_checked(paths);
  const std::vector<BaselineCell> cells = baseline_cells(side);
  std::vector<Place> places;
  for (const BaselineCell& cell : cells) places.push_back(place_of(cell, options));
  Promotion promotion;
  // All are written before the first is put: what is promoted may lie there, and no room may be
  // left.
  std::vector<StagedPlace> staged;
  staged.reserve(places.size());
  for (const Place& place : places) staged.emplace_back(place);
  for (const StagedPlace& place : staged) place.put(promotion);
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
    for (const fs::path& page : files_named(path, kBaselinePage))
      folders.push_back(page.parent_path());
  }
  if (folders.empty()) {
    throw Error(
        ExitCode::kBaselineNeeded,
        fmt::format("{}: no stored baseline in it (keep one with `noisemark baseline promote`)",
                    path));
  }
  std::sort(folders.begin(), folders.end());
  std::string text;
  for (const fs::path& folder : folders) {
    if (is_staged_baseline(folder)) {
      throw Error(ExitCode::kBaselineNeeded, folder.string() + ": " + kStagedWords);
    }
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
