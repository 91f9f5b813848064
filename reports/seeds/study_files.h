#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/compare/sides.h"
#include "reports/render/check.h"
#include "reports/seeds/judge.h"

/// quality.md and quality.json in the folder of a suite.
namespace noisemark::reports {

/// The part of quality.json on how it came about, so that the same runs are judged again as they
/// were, and more of them as it was declared.
struct KeptQuality {
  QualityOptions options;  ///< options with the looks that were taken, this one too
  bool inconclusive_passes = false;
};

/// Reads `folder`/quality.json; empty without one. Throws Error (bad input) for one that this
/// program does not write: what it kept must not get lost unseen.
[[nodiscard]] std::optional<KeptQuality> kept_quality(const std::filesystem::path& folder);

/// Gives `options` the looks that were taken at runs of `side`, as quality.json in `folders` tells
/// of them, and as many declared ones as then. Without any: `declared`, else the default. Throws
/// Error (bad input) where `declared` or two of the files say another number than was declared, as
/// kept_quality() does, and for less than one look or more than kMostLooks.
void take_up_looks(const std::vector<std::filesystem::path>& folders, const Side& side,
                   std::optional<int64_t> declared, QualityOptions& options);

/// Writes both into `folder` (made when missing). Throws Error (cannot write).
void write_quality(const std::filesystem::path& folder, const QualityStudy& study);

/// Judges the runs of the suite in `folder` as the quality.json there was asked for (gates, ranges,
/// looks), else by the default options, and writes both files; empty where they hold no variant
/// beside its reference, and then no file is written and none stays. `looks`: declared with the
/// first one. Throws Error (bad input, also for another number than was declared; cannot write).
std::optional<QualityStudy> write_suite_quality(const std::filesystem::path& folder,
                                                std::optional<int64_t> looks = {});

/// Removes both where a suite begins anew: what was asked for and seen belongs to its earlier runs.
void remove_quality(const std::filesystem::path& folder);

/// Finds what is wrong with a quality.md or quality.json: other bytes than the results of the suite
/// in its folder are rendered to, or, without a suite there, a page that is not quality.json's or a
/// quality.json that cannot be read. It is empty without them.
[[nodiscard]] std::vector<Finding> check_quality(const std::filesystem::path& folder);

}  // namespace noisemark::reports
