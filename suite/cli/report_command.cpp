#include "suite/cli/report_command.h"

#include <fmt/format.h>

#include <filesystem>

#include "reports/collect.h"
#include "reports/export/junit.h"
#include "reports/export/summary.h"
#include "reports/quality/write_quality.h"
#include "reports/write_report.h"
#include "suite/cli/output_format.h"

namespace noisemark::suite {
namespace {

std::vector<std::string> formats() {
  std::vector<std::string> all = {"md", "junit"};
  all.insert(all.end(), figure_formats().begin(), figure_formats().end());
  return all;
}

std::string text_of(const reports::CollectedResults& results, const std::string& format) {
  if (format == "md") return reports::summary_markdown(results);
  if (format == "junit") return reports::junit_of(results);
  return figures_text(format, reports::figures_of(results.results));
}

/// Where a suite has one.
void rewrite_quality(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "suite.json")) return;
  if (!std::filesystem::exists(folder / "quality.json")) return;
  (void)reports::write_suite_quality(folder);
}

}  // namespace

Answer report_results(const Arguments& arguments) {
  const std::string& path = arguments.positional().front();
  if (!arguments.has("format")) {
    if (arguments.has("out")) throw bad_input("report", "--out", "without --format", "both");
    std::string said;
    for (const auto& report : reports::rewrite_report(path)) {
      said += fmt::format("report: {}\n", report.string());
    }
    rewrite_quality(path);
    return {said};
  }
  const std::string format = one_of(arguments, "report", "format", formats());
  return {deliver(arguments, text_of(reports::collect_results(path), format)), ExitCode::kPass};
}

}  // namespace noisemark::suite
