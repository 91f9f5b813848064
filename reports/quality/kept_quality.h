#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/compare/sides.h"
#include "reports/quality/judge.h"

namespace noisemark::reports {

/// What a quality.json says of how it came about, so that the same runs are judged again as they
/// were, and more of them as it was declared.
struct KeptQuality {
  QualityOptions options;  ///< with the looks that were taken, this one too
  bool inconclusive_passes = false;
};

/// Of `folder`/quality.json; empty without one. Throws Error (bad input) for one that this program
/// does not write: what it kept must not get lost unseen.
[[nodiscard]] std::optional<KeptQuality> kept_quality(const std::filesystem::path& folder);

/// Gives `options` the looks that were taken at runs of `side`, as quality.json in `folders` tells
/// of them, and as many declared ones as then. Without any: `declared`, else the default. Throws
/// Error (bad input) where `declared` or two of the files say another number than was declared, as
/// kept_quality() does, and for less than one look or more than kMostLooks.
void take_up_looks(const std::vector<std::filesystem::path>& folders, const Side& side,
                   std::optional<int64_t> declared, QualityOptions& options);

}  // namespace noisemark::reports
