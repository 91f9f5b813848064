#include "reports/render/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/fields.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/base/json_writer.h"
#include "reports/base/sha256.h"
#include "reports/render/check.h"
#include "reports/render/plot.h"
#include "reports/render/report.h"
#include "reports/render/table.h"
#include "reports/result/json_io.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

void render(const fs::path& folder, const Result& result, const std::string& result_sha256,
            std::vector<Finding>& unread) {
  const Plots plots = write_plots(folder, result);
  const Insight insight = read_insight(folder, result_sha256, &unread);
  write_file_atomically(folder / "report.md", render_report(result, result_sha256, plots, insight));
}

void render_folder(const fs::path& folder, std::vector<Finding>& unread) {
  const fs::path file = folder / "result.json";
  const std::string text = read_file(file);
  render(folder, from_json(text, file.string()), sha256_of(text), unread);
}

/// Every run has a folder of its own, below the suite's.
void require_folders_below(const fs::path& file, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (leads_below(name) && seen.insert(name).second) continue;
    throw bad_input(file.string(), "folders", name, "folders below this one, each once");
  }
}

/// Says how the run ended that was to replace the result of an earlier suite.
std::string why_not_replaced(const fs::path& folder) {
  const fs::path file = folder / kReplacementFolder / "result.json";
  const std::string earlier = "the one there is of an earlier suite";
  const std::string none = fmt::format("{}: {}", kNoResult, earlier);
  try {
    if (!fs::exists(file)) return none;
    const Exit exit = read_result(file).exit;
    return fmt::format("{}: {} ({}/ has its result, and {})", exit.status,
                       fmt::join(exit.reasons, "; "), kReplacementFolder, earlier);
  } catch (const Error&) {
    return none;
  }
}

/// Returns nothing where the run has a result of its own, which is not that of the SHA-256
/// `earlier`.
std::string why_lost(const fs::path& folder, const std::string& earlier) {
  const fs::path file = folder / "result.json";
  std::string words;
  std::vector<Finding> unreadable;
  or_lost(file, &unreadable, [&] {
    if (!fs::exists(file)) {
      words = kNoResult;
    } else if (!earlier.empty() && earlier == sha256_of_file(file)) {
      words = why_not_replaced(folder);
    }
  });
  return unreadable.empty() ? words : unreadable.front().words;
}

}  // namespace

bool is_of_a_replacement(const fs::path& folder) {
  const fs::path name = folder.filename();
  if (name != kReplacementFolder && name != kReplacingFolder && name != kArrivingFolder) {
    return false;
  }
  const fs::path run = folder.parent_path();
  return fs::exists(run / "result.json") || fs::exists(run / "events.mlog");
}

bool is_begun_run(const fs::path& folder) {
  std::error_code unknown;
  return fs::exists(folder / "events.mlog", unknown) &&
         !fs::exists(folder / "result.json", unknown);
}

void write_run_folder(const fs::path& folder, const Result& result) {
  make_folder(folder);
  const fs::path path = folder / "result.json";
  const std::string text = to_json(result);
  StagedFile file(path, text);
  // A name need not be UTF-8, and a file of JSON is: the report tells what the file holds.
  std::vector<Finding> unread;  // `report` and `check` name it
  render(folder, from_json(text, path.string()), sha256_of(text), unread);
  file.put_in_place();
}

void write_result_alone(const fs::path& folder, const Result& result) {
  std::error_code ignored;
  fs::remove(folder / "report.md", ignored);
  write_result(folder / "result.json", result);
}

void write_suite(const fs::path& folder, const Suite& suite) {
  make_folder(folder);
  write_file_atomically(folder / "suite.json",
                        document_text(json::kSuiteDocument, json::tree_of(suite)));
}

std::optional<Suite> read_suite(const fs::path& folder) {
  const fs::path file = folder / "suite.json";
  if (!is_named(file)) return std::nullopt;
  auto suite = read_document<Suite>(read_file(file), json::kSuiteDocument, file.string());
  require_folders_below(file, suite.names);
  return suite;
}

std::vector<SuiteRun> suite_runs(const fs::path& folder, const Suite& suite) {
  std::vector<SuiteRun> runs;
  for (const std::string& name : suite.names) {
    const auto not_run = suite.not_run.find(name);
    const auto earlier = suite.earlier.find(name);
    SuiteRun run{name, "", not_run != suite.not_run.end()};
    if (run.not_run) {
      run.lost = not_run->second;
    } else if (std::find(suite.not_made.begin(), suite.not_made.end(), name) !=
                   suite.not_made.end() &&
               is_named(folder / name / "result.json")) {
      run.lost = fmt::format("{}: the one there is of another run", kNoResult);
      run.taken = true;
    } else {
      run.lost = why_lost(folder / name, earlier == suite.earlier.end() ? "" : earlier->second);
    }
    const auto cause = suite.causes.find(name);
    if (!run.lost.empty() && cause != suite.causes.end()) run.lost += ": " + cause->second;
    runs.push_back(std::move(run));
  }
  return runs;
}

void write_suite_report(const fs::path& folder, std::vector<Finding>* lost) {
  const auto all = collect_suite(folder, lost);
  if (!all) throw bad_input(folder.string(), "no suite.json in it", "", "the folder of a suite");
  write_file_atomically(folder / "report.md",
                        render_suite_report(all->title, all->results, all->missing));
}

std::vector<fs::path> rewrite_report(const fs::path& folder, std::vector<Finding>* lost) {
  // A suite that is not whole is refused before anything is written.
  const bool suite = fs::exists(folder / "suite.json") || joined_suite(folder);
  std::vector<fs::path> written;
  for (const fs::path& one : result_folders(folder, lost)) {
    or_lost(one, lost, [&] {
      // The caller holds the folder itself.
      std::optional<FolderLock> lock;
      if (one != folder) lock.emplace(one);
      std::vector<Finding> unread;
      render_folder(one, unread);
      if (lost != nullptr) lost->insert(lost->end(), unread.begin(), unread.end());
      written.push_back(one / "report.md");
    });
  }
  if (suite) {
    or_lost(folder, lost, [&] {
      std::vector<Finding> named_already;
      write_suite_report(folder, lost == nullptr ? nullptr : &named_already);
      written.push_back(folder / "report.md");
    });
  }
  return written;
}

std::optional<CollectedResults> collect_suite(const fs::path& folder, std::vector<Finding>* lost) {
  const auto suite = suite_in(folder);
  if (!suite) return {};
  CollectedResults collected{suite->title, {}, {}};
  for (const SuiteRun& run : suite_runs(folder, *suite)) {
    if (!run.lost.empty()) {
      MissingRun missing{run.name};
      (run.not_run ? missing.not_run : missing.failed) = run.lost;
      collected.missing.push_back(std::move(missing));
      continue;
    }
    const fs::path file = folder / run.name / "result.json";
    std::vector<Finding> unread;
    or_lost(file, lost == nullptr ? nullptr : &unread, [&] {
      collected.results.push_back({run.name, read_result(file)});
    });
    for (const Finding& one : unread) {
      collected.missing.push_back({run.name, "", one.words});
      lost->push_back(one);
    }
  }
  return collected;
}

CollectedResults collect_results(const fs::path& path, std::vector<Finding>* lost) {
  if (fs::is_regular_file(path)) return {path.string(), {{path.string(), read_result(path)}}, {}};
  if (auto suite = collect_suite(path, lost)) return *std::move(suite);
  CollectedResults collected{path.string(), {}, {}};
  std::vector<Finding> missed;
  std::vector<Finding>* const to = lost == nullptr ? nullptr : &missed;
  for (const fs::path& folder : result_folders(path, to)) {
    or_lost(folder, to, [&] {
      collected.results.push_back({folder.string(), read_result(folder / "result.json")});
    });
  }
  for (const Finding& one : missed) collected.missing.push_back({one.file, "", one.words});
  if (lost != nullptr) lost->insert(lost->end(), missed.begin(), missed.end());
  return collected;
}

/// insight.json as a value.
struct InsightFile {
  std::string result_sha256;
  std::string limit;
  std::string since;
};

namespace json {

constexpr Document kInsightDocument{"noisemark.insight",
                                    "Sentences of a report that its result alone cannot say."};

template <>
struct Fields<InsightFile> {
  static constexpr About kAbout{"InsightFile", ""};
  static constexpr std::tuple kAll{
      field("result_sha256", &InsightFile::result_sha256,
            "SHA-256 of the result.json of which the sentences are; of another they are not shown"),
      field("limit", &InsightFile::limit, "what limits the speed, by a profile; empty: none"),
      field("since", &InsightFile::since, "what changed since BASE; empty: nobody named one")};
};

}  // namespace json

namespace {

namespace fs = std::filesystem;

/// Names the way out too: the sentences can be found again.
InsightFile insight_from_json(const std::string& text, const std::string& where) {
  try {
    return read_document<InsightFile>(text, json::kInsightDocument, where);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}; without the file `noisemark report` finds its "
                                          "sentences again",
                                          error.what()));
  }
}

}  // namespace

std::optional<std::string> read_addition(const fs::path& file, std::vector<Finding>* unread) {
  std::optional<std::string> text;
  std::vector<Finding> found;
  or_lost(file, unread == nullptr ? nullptr : &found, [&] {
    if (is_named(file)) text = read_file(file);
  });
  for (Finding& one : found) {
    one.code = ExitCode::kPass;
    unread->push_back(std::move(one));
  }
  return text;
}

Insight read_insight(const fs::path& folder, const std::string& result_sha256,
                     std::vector<Finding>* unread) {
  const fs::path file = folder / kInsightFile;
  const std::optional<std::string> text = read_addition(file, unread);
  if (!text) return {};
  const InsightFile noted = insight_from_json(*text, file.string());
  return noted.result_sha256 == result_sha256 ? Insight{noted.limit, noted.since} : Insight{};
}

void write_insight(const fs::path& folder, const std::string& result_sha256,
                   const Insight& insight) {
  const fs::path file = folder / kInsightFile;
  if (insight.limit.empty() && insight.since.empty()) {
    std::error_code ignored;
    fs::remove(file, ignored);
    return;
  }
  const InsightFile noted{result_sha256, insight.limit, insight.since};
  write_file_atomically(file, document_text(json::kInsightDocument, json::tree_of(noted)));
}

std::vector<json::Published> folder_documents() {
  return {{json::kInsightDocument, json::shape_of<InsightFile>()},
          {json::kSuiteDocument, json::shape_of<Suite>()}};
}

}  // namespace noisemark::reports
