#include "reports/render/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/json.h"
#include "reports/base/markdown.h"
#include "reports/base/sha256.h"
#include "reports/render/plot.h"
#include "reports/render/report.h"
#include "reports/render/run_folder.h"
#include "reports/result/events.h"
#include "reports/result/json_io.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAccepted = "a result.json, its folder, or a folder of such folders";

/// Throws Error (bad input) for a file of another kind, which no rule of results is about.
void require_result_file(const fs::path& path, const std::string& text) {
  if (path.extension() == ".json" || nlohmann::json::accept(text)) return;
  throw bad_input(path.string(), "", read_mark(text) ? "the report of a run" : "not JSON",
                  kAccepted);
}

std::vector<Finding> checksum_findings(const std::string& text, const std::string& file) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("checksum") || !json["checksum"].is_string()) return {};
  const auto stated = json["checksum"].get<std::string>();
  const std::string expected = expected_checksum(text, stated);
  if (expected == stated) return {};
  return {{file, "checksum",
           "the file was changed after it was written: its checksum is " +
               (expected.empty() ? std::string("malformed") : "now " + expected)}};
}

void append(std::vector<Finding>& to, std::vector<Finding> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Reads the result as far as it can be read, and adds what is wrong with the file.
std::optional<Result> check_file(const std::string& text, const std::string& file,
                                 std::vector<Finding>& findings) {
  if (json_fault(text).empty()) {  // else reading it says where it is no JSON
    for (const std::string& words : schema_problems(text))
      findings.push_back({file, "schema", words});
  }
  append(findings, checksum_findings(text, file));
  try {
    Result result = from_json_unverified(text, file);
    append(findings, check_values(result, file));
    return result;
  } catch (const Error& error) {
    const std::string what = error.what();
    const std::string words = what.substr(std::min(what.size(), file.size() + 2));
    const auto named = [&](const Finding& one) { return one.words == words; };
    if (std::none_of(findings.begin(), findings.end(), named)) {
      findings.push_back({file, "schema", words});
    }
    return std::nullopt;
  }
}

/// Returns whether an artifact is weights: far larger than all the rest, they may be left out.
bool are_weights(std::string_view artifact) {
  return artifact == "weights.safetensors" || artifact == "ema.safetensors";
}

std::vector<Finding> artifact_findings(const fs::path& folder, const Result& result) {
  std::vector<Finding> findings;
  for (const Artifact& artifact : result.artifacts) {
    const fs::path relative = artifact.path;
    const fs::path path = folder / relative;
    const auto add = [&](const std::string& words) {
      findings.push_back({path.string(), "artifacts", words});
    };
    or_lost(path, &findings, [&] {
      if (!leads_below(relative)) {
        add("its path leaves the folder of the result");
      } else if (const std::string why = why_no_file(path); !why.empty()) {
        const bool absent = why == kNotThere || why == kLinkToNothing;
        if (absent && are_weights(artifact.path)) return;
        add("the result lists it and it is " + why);
      } else if (sha256_of_file(path) != artifact.sha256) {
        add("it was changed after the run: its SHA-256 is not that of the result");
      }
    });
  }
  return findings;
}

std::vector<Finding> event_findings(const fs::path& folder, const Result& result) {
  const fs::path path = folder / "events.mlog";
  std::vector<Finding> findings;
  if (!is_named(path)) {
    const auto listed = [](const Artifact& one) { return one.path == "events.mlog"; };
    const auto& artifacts = result.artifacts;
    const bool known = std::any_of(artifacts.begin(), artifacts.end(), listed);
    // Files that the result lists are missed as artifacts. A run that left any left its events.
    const bool run_folder = result.identity.is_own() && !artifacts.empty();
    if (run_folder && !known) {
      findings.push_back({path.string(), "events", "every run writes it and it is not there"});
    }
    return findings;
  }
  const bool finished = result.exit.code <= static_cast<int>(ExitCode::kFailed);
  try {
    const auto events = read_events(read_file(path), path.string());
    for (const std::string& words : event_problems(events, finished)) {
      findings.push_back({path.string(), "events", words});
    }
  } catch (const Error& error) {
    findings.push_back({path.string(), "events", error.what()});
  }
  return findings;
}

std::vector<Finding> report_findings(const fs::path& folder, const std::string& text,
                                     const Result& result) {
  const fs::path path = folder / "report.md";
  if (!is_named(path)) return {};
  const std::string report = read_file(path);
  const auto mark = read_mark(report);
  if (!mark) return {{path.string(), "report", "it names no run and no result"}};
  if (mark->run_id != result.run_id) {
    return {{path.string(), "report", "it belongs to run " + mark->run_id}};
  }
  if (mark->result_sha256 != sha256_of(text)) {
    return {{path.string(), "report", "it is stale: rendered from other bytes of result.json"}};
  }
  std::vector<Finding> findings;
  std::vector<Finding> named_already;
  or_lost(folder / kInsightFile, &named_already, [&] {
    const std::string difference = report_difference(report, result, mark->result_sha256,
                                                     read_insight(folder, mark->result_sha256));
    if (difference.empty()) return;
    findings.push_back(
        {path.string(), "report", "it was changed after it was rendered: " + difference});
  });
  return findings;
}

// Looks at the data and the script alone: another gnuplot draws the same plot with other bytes.
std::vector<Finding> plot_findings(const fs::path& folder, const Result& result) {
  std::vector<Finding> findings;
  for (const PlotSource& source : plot_sources(result)) {
    for (const auto& [ending, text] :
         {std::pair(".dat", &source.data), std::pair(".gp", &source.script)}) {
      const fs::path path = folder / "plots" / (source.name + ending);
      or_lost(path, &findings, [&] {
        if (!is_named(path) || read_file(path) == *text) return;
        findings.push_back({path.string(), "plots", "it is not what the result says"});
      });
    }
  }
  return findings;
}

std::vector<Finding> suite_findings(const fs::path& folder) {
  const fs::path list = folder / "suite.json";
  const fs::path report = folder / "report.md";
  if (!is_named(list)) return {};
  try {
    const CollectedResults all = collect_results(folder);
    if (!is_named(report)) return {};
    const std::string difference = text_difference(
        read_file(report), render_suite_report(all.title, all.results, all.missing));
    if (difference.empty()) return {};
    return {{report.string(), "report", "it was changed or is stale: " + difference}};
  } catch (const Error& error) {
    if (!is_named(report)) return {{list.string(), "suite", error.what()}};
    return {{report.string(), "report", fmt::format("it cannot be compared: {}", error.what())}};
  }
}

constexpr std::array kPages = {"report", "quality", "sweep", "predict", "profile/profile"};
constexpr std::array kEndings = {".md", ".html"};

/// Adds the findings about files of which `named` says nothing yet.
void append_unnamed(std::vector<Finding>& named, std::vector<Finding> found) {
  for (Finding& one : found) {
    const bool known = std::any_of(named.begin(), named.end(),
                                   [&](const Finding& other) { return other.file == one.file; });
    if (!known) named.push_back(std::move(one));
  }
}

/// The files that lie where `page` leads, and what a picture of it was drawn from.
std::vector<fs::path> files_behind(const fs::path& page) {
  std::vector<fs::path> files;
  for (const std::string& name : linked_files(read_file(page))) {
    files.push_back(page.parent_path() / name);
    if (files.back().extension() != ".svg") continue;
    for (const char* source : {".dat", ".gp"}) {
      files.push_back(page.parent_path() / fs::path(name).replace_extension(source));
    }
  }
  return files;
}

/// Names each file that a page of the folder refers to and that is not there. What `named` holds
/// already is passed over.
void add_missing_files(const fs::path& folder, std::vector<Finding>& named) {
  std::vector<Finding> found;
  for (const char* name : kPages) {
    for (const char* ending : kEndings) {
      const fs::path page = folder / (std::string(name) + ending);
      std::error_code unknown;
      if (!fs::exists(page, unknown)) continue;
      or_lost(page, &found, [&] {
        for (const fs::path& file : files_behind(page)) {
          or_lost(file, &found, [&] {
            const std::string why = why_no_file(file);
            if (why.empty()) return;
            found.push_back({file.string(), "pages",
                             fmt::format("{}{} refers to it and it is {}", name, ending, why)});
          });
        }
      });
    }
  }
  append_unnamed(named, std::move(found));
}

/// Everything in `folder` that the program may have written there, and that is there.
std::vector<fs::path> own_files(const fs::path& folder) {
  constexpr std::array kFiles = {"suite.json",
                                 kInsightFile,
                                 "quality.json",
                                 "predict.json",
                                 "profile/profile.json",
                                 "events.mlog",
                                 "profile/trace.json.gz",
                                 "profile/memory_timeline.json"};
  std::vector<fs::path> files;
  const auto add = [&](const fs::path& file) {
    if (is_named(file)) files.push_back(file);
  };
  for (const char* file : kFiles) add(folder / file);
  for (const char* page : kPages) {
    for (const char* ending : kEndings) add(folder / (std::string(page) + ending));
  }
  for (const char* kept : {"plots", "distances", "profile/plots"}) {
    if (!fs::is_directory(folder / kept)) continue;
    for (const fs::directory_entry& entry : read_folder(folder / kept)) files.push_back(entry);
  }
  return files;
}

/// Names each file of the program's that is no file, cannot be opened or holds nothing, whether or
/// not a rule reads it. What `named` holds already is passed over.
void add_odd_files(const fs::path& folder, std::vector<Finding>& named) {
  std::vector<Finding> found;
  or_lost(folder, &found, [&] {
    for (const fs::path& path : own_files(folder)) {
      or_lost(path, &found, [&] {
        char first = 0;
        if (InputFile(path).read_some(&first, 1) == 1) return;
        found.push_back({path.string(), "unreadable", "it is empty"});
      });
    }
  });
  append_unnamed(named, std::move(found));
}

/// `top` and every folder between it and the results below it, which may have pages of their own.
std::set<fs::path> folders_down_to(const fs::path& top, const std::vector<fs::path>& results) {
  std::set<fs::path> folders{top};
  for (const fs::path& result : results) {
    for (fs::path at = result; at != top && at.has_relative_path(); at = at.parent_path()) {
      folders.insert(at);
    }
  }
  return folders;
}

std::vector<Finding> check_folder(const fs::path& folder) {
  const fs::path file = folder / "result.json";
  const std::string text = read_file(file);
  std::vector<Finding> findings;
  const auto result = check_file(text, file.string(), findings);
  if (!result) return findings;
  append(findings, artifact_findings(folder, *result));
  or_lost(folder / "events.mlog", &findings,
          [&] { append(findings, event_findings(folder, *result)); });
  or_lost(folder / kInsightFile, &findings, [&] { (void)read_insight(folder, sha256_of(text)); });
  or_lost(folder / "report.md", &findings,
          [&] { append(findings, report_findings(folder, text, *result)); });
  append(findings, plot_findings(folder, *result));
  return findings;
}

/// The runs of a suite whose folders are not there, or hold nothing of a run, or have the result of
/// another one, which goes to `taken`.
void add_lost_of_suite(const fs::path& folder, std::set<fs::path>& taken,
                       std::vector<Finding>& lost) {
  std::vector<Finding> named_by_others;  // a list that is none
  or_lost(folder / "suite.json", &named_by_others, [&] {
    const auto suite = read_suite(folder);
    if (!suite) return;
    for (const SuiteRun& run : suite_runs(folder, *suite)) {
      const fs::path place = folder / run.name;
      if (run.taken && taken.insert(place).second) {
        lost.push_back({(place / "result.json").string(), kLost, run.lost});
      }
      if (run.lost.empty() || run.not_run || fs::exists(place / "events.mlog")) continue;
      if (!fs::exists(place / "result.json")) lost.push_back({place.string(), kLost, run.lost});
    }
  });
}

/// The runs of a prediction that was written into a run's folder belong to it alone.
bool is_prediction_of_a_run(const fs::path& folder) {
  std::error_code none;
  return folder.filename() == "predict" &&
         fs::is_regular_file(folder.parent_path() / "result.json", none);
}

/// A suite without its list, of which only its report tells: which runs are missing, nobody knows.
void add_lost_suite(const fs::path& folder, std::vector<Finding>& lost) {
  const fs::path list = folder / "suite.json";
  const fs::path report = folder / "report.md";
  std::vector<Finding> named_by_others;
  or_lost(report, &named_by_others, [&] {
    if (is_named(list) || is_named(folder / "result.json")) return;
    if (!is_suite_report(read_file(report)) || joined_suite(folder)) return;
    lost.push_back(
        {list.string(), kLost, "it is not there, and the report.md beside it is a suite's"});
  });
}

void add_result_folders(const fs::path& folder, std::vector<fs::path>& found,
                        std::set<fs::path>& taken, std::vector<Finding>* lost) {
  or_lost(folder, lost, [&] {
    for (const fs::directory_entry& entry : read_folder(folder)) {
      if (entry.path().filename() == "result.json") found.push_back(folder);
      if (lost != nullptr && entry.path().filename() == "suite.json") {
        add_lost_of_suite(folder, taken, *lost);
      }
      if (lost != nullptr && entry.path().filename() == "report.md") add_lost_suite(folder, *lost);
      std::error_code unknown;
      if (lost != nullptr && entry.is_symlink(unknown) && !entry.exists(unknown)) {
        lost->push_back({entry.path().string(), kLost, std::string(kLinkToNothing)});
      }
      const bool folder_of_runs = !entry.is_symlink() && entry.is_directory();
      if (!folder_of_runs || is_of_a_replacement(entry.path())) continue;
      if (is_prediction_of_a_run(entry.path())) continue;
      if (lost != nullptr && is_begun_run(entry.path())) {
        lost->push_back({entry.path().string(), kLost, kBegun});
      }
      add_result_folders(entry.path(), found, taken, lost);
    }
  });
}

/// An error's words, without the path that a finding names already.
Finding finding_of(const fs::path& path, const Error& error) {
  const std::string before = path.string() + ": ";
  std::string words = error.what();
  if (words.starts_with(before)) words.erase(0, before.size());
  const bool unwritable =
      error.code() == ExitCode::kCannotWrite && words.find("cannot be read") == std::string::npos;
  return {path.string(), unwritable ? "unwritable" : "unreadable", words, error.code()};
}

}  // namespace

void or_lost(const fs::path& path, std::vector<Finding>* lost,
             const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    if (lost == nullptr) throw;
    lost->push_back(finding_of(path, error));
  } catch (const std::system_error& error) {
    if (lost == nullptr) throw error_of(error);
    lost->push_back(finding_of(path, error_of(error)));
  }
}

std::vector<fs::path> result_folders(const fs::path& path, std::vector<Finding>* lost) {
  std::error_code none;
  if (fs::exists(path / "result.json", none)) return {path};
  if (!fs::exists(path, none)) throw bad_input(path.string(), "", "not there", kAccepted);
  if (!fs::is_directory(path, none)) throw bad_input(path.string(), "", "not a folder", kAccepted);
  std::vector<fs::path> folders;
  const size_t lost_before = lost == nullptr ? 0 : lost->size();
  std::set<fs::path> taken;
  add_result_folders(path, folders, taken, lost);
  std::erase_if(folders, [&](const fs::path& folder) { return taken.contains(folder); });
  if (folders.empty() && (lost == nullptr || lost->size() == lost_before)) {
    throw bad_input(path.string(), "",
                    is_begun_run(path) ? kBegun : "no result.json in it or below it", kAccepted);
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::vector<fs::path> absent_weights(const fs::path& path) {
  std::vector<fs::path> absent;
  std::error_code unknown;
  if (fs::is_regular_file(path, unknown)) return absent;
  std::vector<Finding> lost;  // check() names them
  for (const fs::path& folder : result_folders(path, &lost)) {
    const fs::path file = folder / "result.json";
    or_lost(file, &lost, [&] {
      const Result result = from_json_unverified(read_file(file), file.string());
      for (const Artifact& artifact : result.artifacts) {
        const bool here = fs::exists(folder / artifact.path);
        if (are_weights(artifact.path) && !here) absent.push_back(folder / artifact.path);
      }
    });
  }
  return absent;
}

std::vector<Finding> check(const fs::path& path) {
  std::vector<Finding> findings;
  if (fs::is_regular_file(path)) {
    const std::string text = read_file(path);
    require_result_file(path, text);
    (void)check_file(text, path.string(), findings);
    return findings;
  }
  const std::vector<fs::path> results = result_folders(path, &findings);
  for (const fs::path& folder : results) {
    or_lost(folder, &findings, [&] { append(findings, check_folder(folder)); });
  }
  for (const fs::path& folder : folders_down_to(path, results)) {
    or_lost(folder, &findings, [&] { append(findings, suite_findings(folder)); });
    add_missing_files(folder, findings);
    add_odd_files(folder, findings);
  }
  return findings;
}

}  // namespace noisemark::reports
