#pragma once

#include <string>

#include "reports/quality/quality.h"

namespace noisemark::reports {

/// The section of quality.md on distances: where each comes from, and what was measured of every
/// run, with its N and its error. Empty without distances.
[[nodiscard]] std::string distances_markdown(const QualityStudy& study);

}  // namespace noisemark::reports
