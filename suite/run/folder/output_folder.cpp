#include "suite/run/folder/output_folder.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/base/streams.h"
#include "reports/render/report.h"
#include "reports/render/run_folder.h"
#include "reports/result/gate.h"
#include "reports/result/json_io.h"
#include "reports/result/metrics.h"
#include "reports/result/warmup.h"
#include "suite/config/lock.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> kSuiteFiles = {"suite.json", "report.md"};
/// Pages of earlier runs, which are made only where they are asked for.
constexpr std::array<const char*, 4> kPages = {"report.html", "quality.html", "sweep.html",
                                               "predict.html"};
using reports::kArrivingFolder;
using reports::kReplacementFolder;
using reports::kReplacingFolder;

bool is_empty_folder(const fs::path& path) {
  return fs::is_directory(path) && fs::directory_iterator(path) == fs::directory_iterator();
}

/// Tells by what only a run leaves: its events are the first file that it writes, its result the
/// last.
bool holds_run(const fs::path& path) {
  for (const fs::path& folder :
       {path, path / kReplacementFolder, path / kReplacingFolder, path / kArrivingFolder}) {
    if (fs::exists(folder / "events.mlog") || fs::exists(folder / "result.json")) return true;
  }
  return false;
}

/// Goes on from wherever a killed process stopped: before a complete replacement only what it
/// replaces may go, and files on their way up only arrive.
void complete_replacement(const fs::path& path) {
  const fs::path arriving = path / kArrivingFolder;
  if (fs::exists(path / kReplacingFolder / "result.json")) {
    fs::remove(path / "result.json");
    for (const char* name : kRunFiles) fs::remove_all(path / name);
    fs::rename(path / kReplacingFolder, arriving);
  }
  if (!fs::exists(arriving)) return;
  for (const char* name : kRunFiles) {
    if (fs::exists(arriving / name)) fs::rename(arriving / name, path / name);
  }
  fs::remove_all(arriving);
}

/// Removes what a killed run was about to write.
void remove_leftovers_of_runs(const fs::path& path) {
  for (const fs::path& folder : {path, path / kReplacementFolder}) {
    reports::remove_leftovers(folder, kRunFiles);
    if (holds_run(folder)) reports::remove_leftovers(folder / "plots");
  }
}

void refuse(const fs::path& path) {
  const std::string found = holds_run(path) ? "holds another run" : "is not an empty folder";
  throw bad_input("--out", path.string(), found,
                  "a new or empty folder; --force replaces a run, --resume continues it");
}

void refuse_to_resume(const fs::path& path) {
  throw bad_input("--resume", path.string(), "holds no run of this program",
                  "the folder of the run to continue, or a new or empty one");
}

OutputFolder folder_to_resume(const fs::path& path) {
  const bool anything = fs::exists(path) && !is_empty_folder(path);
  if (anything && !holds_run(path)) refuse_to_resume(path);
  complete_replacement(path);
  if (fs::exists(path / kReplacementFolder)) return {path / kReplacementFolder, path};
  OutputFolder folder{path, path};
  if (anything && !fs::exists(folder.events())) refuse_to_resume(path);
  reports::make_folder(path);
  return folder;
}

OutputFolder folder_to_replace(const fs::path& path) {
  complete_replacement(path);
  fs::remove_all(path / kReplacementFolder);
  reports::make_folder(path / kReplacementFolder);
  return {path / kReplacementFolder, path};
}

}  // namespace

OutputFolder prepare_output_folder(const fs::path& path, ExistingRun existing) {
  remove_leftovers_of_runs(path);
  if (existing == ExistingRun::kResume) return folder_to_resume(path);
  if (fs::exists(path) && !is_empty_folder(path)) {
    if (existing == ExistingRun::kRefuse || !holds_run(path)) refuse(path);
    return folder_to_replace(path);
  }
  reports::make_folder(path);
  return {path, path};
}

bool replaces_run_to_keep(const OutputFolder& folder) {
  const fs::path earlier = folder.final_path / "result.json";
  if (folder.path == folder.final_path || !fs::exists(earlier)) return false;
  try {
    return reports::came_to_its_last_step(reports::read_result(earlier));
  } catch (const Error&) {  // nobody knows what it is worth
    return true;
  }
}

void put_in_place(const OutputFolder& folder) {
  if (folder.path == folder.final_path) return;
  fs::rename(folder.path, folder.final_path / kReplacingFolder);
  complete_replacement(folder.final_path);
}

bool holds_replacement(const fs::path& path) {
  return fs::exists(path / kReplacementFolder);
}

void prepare_suite_folder(const fs::path& path, bool existing) {
  reports::remove_leftovers(path, kSuiteFiles);
  const bool anything = fs::exists(path) && !is_empty_folder(path);
  const bool allowed = existing && fs::is_directory(path) && reports::read_suite(path);
  if (anything && !allowed) {
    throw bad_input("--out", path.string(), "is not an empty folder",
                    "a new or empty folder; --force and --resume take that of a suite too");
  }
  reports::make_folder(path);
  for (const char* page : kPages) fs::remove(path / page);
}

FreshFolder::FreshFolder(const fs::path& parent, const std::string& label) {
  if (!parent.empty()) reports::make_folder(parent);
  for (int number = 1;; ++number) {
    path_ = parent / (reports::portable_name(label) + "-" + std::to_string(number));
    std::error_code error;
    if (fs::create_directory(path_, error)) return;
    if (error && error != std::errc::file_exists) throw reports::not_written(path_, error.value());
  }
}

FreshFolder::~FreshFolder() {
  std::error_code ignored;
  fs::remove(path_, ignored);  // removes it only where it is empty
}

namespace {

std::optional<double> figure(const reports::Result& result, std::string_view name) {
  const reports::Metric* metric = reports::find_metric(result, name);
  return metric != nullptr ? metric->value : std::nullopt;
}

/// The loss at the start, and how far the optimal one is from that of the trained weights.
std::string beside_the_loss(const reports::Result& result) {
  std::string words;
  if (const auto at_start = figure(result, "val_loss_initial")) {
    words += fmt::format(" (at the start {})", reports::format_number(*at_start));
  }
  if (const auto excess = figure(result, "excess_loss")) {
    words += fmt::format(", {} above the Bayes-optimal loss", reports::format_percent(*excess));
  }
  return words;
}

/// ": throughput 16.8 images/s, ..."; empty where the run has none of these figures.
std::string figures(const reports::Result& result) {
  std::vector<std::string> said;
  for (const reports::MetricRow& row : reports::metric_table()) {
    const std::optional<double> value = figure(result, row.name);
    if (row.spoken.empty() || !value) continue;
    std::string& words = said.emplace_back(row.spoken);
    words += " " + reports::spoken_value(row, *value);
    if (row.name == reports::kRateMetric) {
      words += reports::rate_caveat(result.protocol.warmup_stable);
    }
    if (row.name == reports::kLossMetric) words += beside_the_loss(result);
  }
  const auto at_start = figure(result, "val_loss_initial");
  if (at_start && !figure(result, reports::kLossMetric)) {
    said.push_back("validation loss at the start " + reports::format_number(*at_start));
  }
  return said.empty() ? "" : fmt::format(": {}", fmt::join(said, ", "));
}

}  // namespace

std::string verdict_text(const reports::Result& result, const std::filesystem::path& folder) {
  const reports::Identity& id = result.identity;
  const std::string rounded = id.reduction.empty() ? "" : " reduced in " + id.reduction;
  std::string text =
      fmt::format("{} {}@{} {} {} {}{}{}\n", reports::capitals(result.exit.status), id.benchmark,
                  id.scale, id.mode, id.baseline, id.precision, rounded, figures(result));
  for (const std::string& reason : result.exit.reasons) text += "  " + reason + "\n";
  return text + "  report: " + (folder / "report.md").string() + "\n";
}

namespace {

namespace fs = std::filesystem;

std::string data_checksum(const std::vector<reports::DataFile>& files) {
  if (files.empty()) return {};
  reports::Sha256 sha;
  for (const reports::DataFile& file : files) {
    if (reports::is_left_out(file)) continue;
    sha.update(file.name + "\n" + file.sha256 + "\n");
  }
  return sha.hex();
}

/// Everything outside the definition that decides which bits come next.
/// The number of ranks is no part of it: any number continues what another one began. The number of
/// a GPU is none either, because each rank has another one.
std::string execution_of(const reports::Identity& identity, uint64_t seed, bool deterministic) {
  const std::string rounded =
      identity.reduction.empty() ? "" : ", gradients reduced in " + identity.reduction;
  return fmt::format("{}-{}-{} {} {} threads{}, seed {}{}", identity.mode, identity.baseline,
                     identity.precision, identity.device_kind(), identity.threads, rounded, seed,
                     deterministic ? ", deterministic" : "");
}

bool has_its_report(const fs::path& folder, const reports::Result& result) {
  const fs::path path = folder / "report.md";
  if (!fs::exists(path)) return false;
  const auto mark = reports::read_mark(reports::read_file(path));
  return mark && mark->run_id == result.run_id;
}

void require_own(const fs::path& path, const reports::Result& result, const CheckpointKey& own) {
  const std::string& framework = result.identity.framework;
  if (framework != reports::kOwnFramework) {
    throw Error(ExitCode::kNotComparable,
                path.string() + ": framework: " + framework + " (this run has noisemark)");
  }
  require_same_run(path.string(), run_key(result), own);
}

}  // namespace

CheckpointKey run_key(const PlannedRun& plan, const std::vector<reports::DataFile>& data) {
  const RunSpec& spec = plan.spec;
  reports::Identity identity;
  identity.mode = spec.mode.name;
  identity.baseline = spec.baseline.name;
  identity.precision = spec.precision.name;
  identity.device = spec.device.str();
  identity.threads = spec.threads;
  identity.reduction = spec.reduction;
  return {definition_sha256(plan.spec.definition),
          execution_of(identity, plan.seed, spec.deterministic), data_checksum(data)};
}

CheckpointKey run_key(const reports::Result& result) {
  return {result.identity.definition_sha256,
          execution_of(result.identity, result.seeds.base, result.protocol.deterministic),
          data_checksum(result.provenance.data), result.provenance.init_weights_sha256};
}

std::optional<reports::Result> earlier_result(const fs::path& folder, const CheckpointKey& own) {
  const fs::path path = folder / "result.json";
  if (!fs::exists(path)) return std::nullopt;
  reports::Result result = reports::read_result(path);
  require_own(path, result, own);
  return result;
}

std::optional<reports::Result> finished_result(const fs::path& folder, const PlannedRun& plan) {
  const fs::path path = folder / "result.json";
  if (!fs::exists(path)) return std::nullopt;
  reports::Result result = reports::read_result(path);
  require_own(path, result, run_key(plan, result.provenance.data));
  return reports::is_finished(result) ? std::optional(std::move(result)) : std::nullopt;
}

void require_continuable(const std::string& checkpoint, const CheckpointKey& own,
                         const ModeSpec& mode) {
  require_checkpoint(checkpoint, own);
  if (mode.lossless) return;
  throw Error(
      ExitCode::kNotComparable,
      "--resume: " + checkpoint + ": of " + mode.name +
          ", a mode that rounds, but not in the first passes of a process: the run would not end "
          "as one that was not stopped (a lossless mode; without this file --resume begins the run "
          "anew)");
}

void tell_of_checkpoints(const ModeSpec& mode) {
  if (mode.lossless) return;
  reports::say_on_stderr(
      fmt::format("--checkpoint-every: {} is a mode that rounds: --resume will not continue from "
                  "its checkpoints",
                  mode.name));
}

ExitCode leave_finished(const reports::Result& result, const fs::path& folder) {
  if (!has_its_report(folder, result)) reports::rewrite_report(folder);
  reports::say_on_stderr(
      fmt::format("--resume: {}: the run is finished and stays as it is", folder.string()));
  reports::print_out(verdict_text(result, folder));
  return static_cast<ExitCode>(result.exit.code);
}

std::string ways_on(const fs::path& out, bool resumable) {
  return fmt::format(
      "the same command with --out {} and {}", reports::shell_word(out.string()),
      resumable ? "--resume continues it, with --force begins anew" : "--force begins anew");
}

}  // namespace noisemark::suite
