#include "reports/seeds/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/compare/sides.h"
#include "reports/seeds/study.h"
#include "reports/seeds/variants.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkdown = "quality.md";
constexpr const char* kJson = "quality.json";
constexpr const char* kSuite = "suite.json";

KeptQuality kept_of(const QualityStudy& study) {
  KeptQuality kept;
  kept.inconclusive_passes = study.inconclusive_passes;
  kept.options = {.gates = study.asked_gates,
                  .ranges = study.asked_ranges,
                  .alpha = study.alpha,
                  .power = study.power,
                  .resamples = study.resamples,
                  .seed = study.seed,
                  .looks = study.looks.declared,
                  .earlier = study.looks.taken};
  for (RunIds& runs : kept.options.earlier) std::sort(runs.begin(), runs.end());
  return kept;
}

void check_declared(int64_t looks) {
  if (looks >= 1 && looks <= kMostLooks) return;
  throw bad_input("quality", "--looks", std::to_string(looks), fmt::format("1 to {}", kMostLooks));
}

}  // namespace

std::optional<KeptQuality> kept_quality(const fs::path& folder) {
  const fs::path file = folder / kJson;
  if (!is_named(file)) return std::nullopt;
  const KeptQuality kept = kept_of(quality_from_json(read_file(file), file.string()));
  check_declared(kept.options.looks);
  return kept;
}

void take_up_looks(const std::vector<fs::path>& folders, const Side& side,
                   std::optional<int64_t> declared, QualityOptions& options) {
  if (declared) check_declared(*declared);
  const RunIds runs = run_ids_of(side);
  std::optional<int64_t> known = declared;
  for (const fs::path& folder : folders) {
    const auto kept = kept_quality(folder);
    if (!kept) continue;
    const std::vector<RunIds>& taken = kept->options.earlier;
    const bool of_these = std::any_of(taken.begin(), taken.end(),
                                      [&](const RunIds& one) { return share_a_run(one, runs); });
    if (!of_these) continue;
    if (known && *known != kept->options.looks) {
      throw bad_input("quality", "--looks", std::to_string(*known),
                      fmt::format("{}, as was declared before the first look: {}",
                                  kept->options.looks, (folder / kJson).string()));
    }
    known = kept->options.looks;
    for (const RunIds& one : taken) {
      if (std::find(options.earlier.begin(), options.earlier.end(), one) == options.earlier.end()) {
        options.earlier.push_back(one);
      }
    }
  }
  options.looks = known.value_or(kDefaultLooks);
}

namespace {

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

std::vector<Finding> difference(const fs::path& file, const std::string& expected,
                                const std::string& source = "the results of the suite") {
  if (!is_named(file) || read_file(file) == expected) return {};
  return {{file.string(), "quality", fmt::format("it is not what {} is rendered to", source)}};
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
  const bool has_json = is_named(folder / kJson);
  if (!has_json && !is_named(folder / kMarkdown)) return {};
  const bool has_runs = is_named(folder / kSuite);
  if (!has_runs && !has_json) return {};
  if (!has_json) {
    return {{(folder / kJson).string(), "quality",
             "it keeps the looks of quality.md and it is not there"}};
  }
  try {
    if (!has_runs) {  // a study in a folder of its own
      const QualityStudy kept =
          quality_from_json(read_file(folder / kJson), (folder / kJson).string());
      return difference(folder / kMarkdown, quality_markdown(kept), "quality.json");
    }
    const auto study = study_of(folder);
    std::vector<Finding> findings =
        difference(folder / kMarkdown, study ? quality_markdown(*study) : "");
    for (Finding& one : difference(folder / kJson, study ? quality_json(*study) : "")) {
      findings.push_back(std::move(one));
    }
    return findings;
  } catch (const Error& error) {
    return {{(folder / (has_runs ? kMarkdown : kJson)).string(), "quality",
             fmt::format("it cannot be compared: {}", error.what())}};
  }
}

}  // namespace noisemark::reports
