#include "reports/collect.h"

#include <utility>

#include "reports/check.h"
#include "reports/json_io.h"
#include "reports/write_report.h"

namespace noisemark::reports {

namespace fs = std::filesystem;

std::optional<CollectedResults> collect_suite(const fs::path& folder) {
  const auto suite = read_suite(folder);
  if (!suite) return {};
  CollectedResults collected{suite->title, {}, {}};
  for (const SuiteRun& run : suite_runs(folder, *suite)) {
    if (run.lost.empty()) {
      collected.results.push_back({run.name, read_result(folder / run.name / "result.json")});
    } else {
      collected.missing.push_back({run.name, run.not_run ? run.lost : ""});
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
