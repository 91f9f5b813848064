#include "reports/write_report.h"

#include <nlohmann/json.hpp>

#include "reports/check.h"
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

void render_suite(const fs::path& folder, const std::string& title,
                  const std::vector<std::string>& names) {
  std::vector<NamedResult> results;
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    const fs::path file = folder / name / "result.json";
    if (fs::exists(file)) results.push_back({name, read_result(file)});
    if (!fs::exists(file)) missing.push_back(name);
  }
  write_file_atomically(folder / "report.md", render_suite_report(title, results, missing));
}

void rewrite_suite(const fs::path& folder) {
  const fs::path file = folder / "suite.json";
  const auto json = nlohmann::json::parse(read_file(file), nullptr, false);
  const bool known = json.is_object() && json.value("schema", "") == kSuiteSchema &&
                     json.contains("title") && json["title"].is_string() &&
                     json.contains("folders") && json["folders"].is_array();
  if (!known) throw bad_input(file.string(), "not a suite", "", std::string(kSuiteSchema));
  std::vector<std::string> names;
  for (const auto& name : json["folders"]) {
    if (!name.is_string()) throw bad_input(file.string(), "folders", name.dump(), "a string");
    names.push_back(name.get<std::string>());
  }
  render_suite(folder, json["title"].get<std::string>(), names);
}

}  // namespace

void write_run_folder(const fs::path& folder, const Result& result) {
  make_folder(folder);
  const std::string text = to_json(result);
  write_file_atomically(folder / "result.json", text);
  render(folder, result, sha256_of(text));
}

void write_suite_report(const std::string& title, const fs::path& folder,
                        const std::vector<fs::path>& folders) {
  make_folder(folder);
  std::vector<std::string> names;
  for (const fs::path& one : folders) names.push_back(one.lexically_relative(folder).string());
  Json json;
  json["schema"] = kSuiteSchema;
  json["title"] = title;
  json["folders"] = names;
  write_file_atomically(folder / "suite.json", json.dump(2) + "\n");
  render_suite(folder, title, names);
}

void rewrite_report(const fs::path& folder) {
  const bool suite = fs::exists(folder / "suite.json");
  for (const fs::path& one : result_folders(folder)) render_folder(one);
  if (suite) rewrite_suite(folder);
}

}  // namespace noisemark::reports
