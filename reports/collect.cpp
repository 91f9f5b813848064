#include "reports/collect.h"

#include <utility>

#include "reports/check.h"
#include "reports/json_io.h"
#include "reports/sha256.h"
#include "reports/write_report.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

bool left_a_result(const fs::path& folder, const Suite& suite, const std::string& name) {
  if (suite.not_run.contains(name)) return false;
  const fs::path file = folder / name / "result.json";
  if (!fs::exists(file)) return false;
  const auto earlier = suite.earlier.find(name);
  return earlier == suite.earlier.end() || earlier->second != sha256_of_file(file);
}

}  // namespace

std::optional<CollectedResults> collect_suite(const fs::path& folder) {
  const auto suite = read_suite(folder);
  if (!suite) return {};
  CollectedResults collected{suite->title, {}, {}};
  for (const std::string& name : suite->names) {
    if (left_a_result(folder, *suite, name)) {
      collected.results.push_back({name, read_result(folder / name / "result.json")});
    } else {
      const auto not_run = suite->not_run.find(name);
      collected.missing.push_back({name, not_run == suite->not_run.end() ? "" : not_run->second});
    }
  }
  return collected;
}

CollectedResults collect_results(const fs::path& path) {
  if (fs::is_regular_file(path)) return {path.string(), {{path.string(), read_result(path)}}, {}};
  if (auto suite = collect_suite(path)) return *std::move(suite);
  CollectedResults collected{path.string(), {}, {}};
  for (const fs::path& folder : result_folders(path)) {
    collected.results.push_back({folder.string(), read_result(folder / "result.json")});
  }
  return collected;
}

}  // namespace noisemark::reports
