#include "reports/write_report.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "reports/check.h"
#include "reports/collect.h"
#include "reports/error.h"
#include "reports/file.h"
#include "reports/json_io.h"
#include "reports/plot.h"
#include "reports/report.h"
#include "reports/sha256.h"
#include "reports/table.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kSuiteSchema = "noisemark.suite 1";

void render(const fs::path& folder, const Result& result, const std::string& result_sha256) {
  const Plots plots = write_plots(folder, result);
  write_file_atomically(folder / "report.md", render_report(result, result_sha256, plots));
}

void render_folder(const fs::path& folder) {
  const fs::path file = folder / "result.json";
  const std::string text = read_file(file);
  render(folder, from_json(text, file.string()), sha256_of(text));
}

Error not_a_suite(const fs::path& file, const std::string& what) {
  return bad_input(file.string(), "not a suite", what, std::string(kSuiteSchema));
}

}  // namespace

void write_run_folder(const fs::path& folder, const Result& result) {
  make_folder(folder);
  const std::string text = to_json(result);
  StagedFile file(folder / "result.json", text);
  render(folder, result, sha256_of(text));
  file.put_in_place();
}

void write_result_alone(const fs::path& folder, const Result& result) {
  std::error_code ignored;
  fs::remove(folder / "report.md", ignored);
  write_file_atomically(folder / "result.json", to_json(result));
}

void write_suite(const fs::path& folder, const Suite& suite) {
  make_folder(folder);
  Json json;
  json["schema"] = kSuiteSchema;
  json["title"] = suite.title;
  json["folders"] = suite.names;
  json["earlier"] = suite.earlier;
  json["not_run"] = suite.not_run;
  if (!suite.judged.empty()) json["judged"] = suite.judged;
  write_file_atomically(folder / "suite.json", json.dump(2) + "\n");
}

std::optional<Suite> read_suite(const fs::path& folder) {
  const fs::path file = folder / "suite.json";
  if (!fs::exists(file)) return std::nullopt;
  const auto json = nlohmann::json::parse(read_file(file), nullptr, false);
  try {
    const auto schema = json.at("schema").get<std::string>();
    if (schema != kSuiteSchema) throw not_a_suite(file, schema);
    Suite suite;
    json.at("title").get_to(suite.title);
    json.at("folders").get_to(suite.names);
    if (json.contains("earlier")) json["earlier"].get_to(suite.earlier);
    if (json.contains("not_run")) json["not_run"].get_to(suite.not_run);
    if (json.contains("judged")) json["judged"].get_to(suite.judged);
    return suite;
  } catch (const nlohmann::json::exception& error) {
    throw not_a_suite(file, error.what());
  }
}

std::vector<SuiteRun> suite_runs(const fs::path& folder, const Suite& suite) {
  std::vector<SuiteRun> runs;
  for (const std::string& name : suite.names) {
    const fs::path file = folder / name / "result.json";
    const auto not_run = suite.not_run.find(name);
    const auto earlier = suite.earlier.find(name);
    SuiteRun run{name, "", not_run != suite.not_run.end()};
    if (run.not_run) {
      run.lost = not_run->second;
    } else if (!fs::exists(file)) {
      run.lost = "it left no result";
    } else if (earlier != suite.earlier.end() && earlier->second == sha256_of_file(file)) {
      run.lost = "the result there is of an earlier suite";
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

void write_suite_report(const fs::path& folder) {
  const auto all = collect_suite(folder);
  if (!all) throw bad_input(folder.string(), "no suite.json in it", "", "the folder of a suite");
  write_file_atomically(folder / "report.md",
                        render_suite_report(all->title, all->results, all->missing));
}

std::vector<fs::path> rewrite_report(const fs::path& folder) {
  const bool suite = fs::exists(folder / "suite.json");
  std::vector<fs::path> written;
  for (const fs::path& one : result_folders(folder)) {
    render_folder(one);
    written.push_back(one / "report.md");
  }
  if (suite) {
    write_suite_report(folder);
    written.push_back(folder / "report.md");
  }
  return written;
}

}  // namespace noisemark::reports
