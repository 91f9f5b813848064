#include "reports/quality/write_quality.h"

#include <fmt/format.h>

#include <system_error>

#include "reports/compare/sides.h"
#include "reports/error.h"
#include "reports/file.h"
#include "reports/quality/kept_quality.h"
#include "reports/quality/quality_json.h"
#include "reports/quality/quality_markdown.h"
#include "reports/quality/variants.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkdown = "quality.md";
constexpr const char* kJson = "quality.json";
constexpr const char* kSuite = "suite.json";

std::optional<QualityStudy> study_of(const fs::path& folder, std::optional<int64_t> looks = {}) {
  if (read_side(folder.string()).runs.empty()) return std::nullopt;
  const QualitySide judged = read_quality_side({folder.string()});
  if (pairings_of(judged.side).empty()) return std::nullopt;
  const auto kept = kept_quality(folder);
  QualityOptions options = kept ? kept->options : QualityOptions{};
  options.earlier.clear();
  if (kept && !looks) looks = kept->options.looks;
  take_up_looks({folder}, judged.side, looks, options);
  QualityStudy study = judge_quality(judged, options);
  study.inconclusive_passes = kept && kept->inconclusive_passes;
  return study;
}

std::vector<Finding> difference(const fs::path& file, const std::string& expected) {
  if (!fs::exists(file) || read_file(file) == expected) return {};
  return {{file.string(), "quality", "it is not what the results of the suite render to"}};
}

}  // namespace

void write_quality(const fs::path& folder, const QualityStudy& study) {
  make_folder(folder);
  write_file_atomically(folder / kJson, quality_json(study));
  write_file_atomically(folder / kMarkdown, quality_markdown(study));
}

std::optional<QualityStudy> write_suite_quality(const fs::path& folder,
                                                std::optional<int64_t> looks) {
  const auto study = study_of(folder, looks);
  if (study) {
    write_quality(folder, *study);
  } else {
    remove_quality(folder);
  }
  return study;
}

void remove_quality(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(folder / kMarkdown, ignored);
  fs::remove(folder / kJson, ignored);
}

std::vector<Finding> check_quality(const fs::path& folder) {
  if (!fs::exists(folder / kSuite)) return {};
  if (!fs::exists(folder / kMarkdown) && !fs::exists(folder / kJson)) return {};
  try {
    const auto study = study_of(folder);
    std::vector<Finding> findings =
        difference(folder / kMarkdown, study ? quality_markdown(*study) : "");
    for (Finding& one : difference(folder / kJson, study ? quality_json(*study) : "")) {
      findings.push_back(std::move(one));
    }
    return findings;
  } catch (const Error& error) {
    return {{(folder / kMarkdown).string(), "quality",
             fmt::format("it cannot be compared: {}", error.what())}};
  }
}

}  // namespace noisemark::reports
