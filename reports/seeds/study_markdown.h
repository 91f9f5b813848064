#pragma once

#include <string>

#include "reports/seeds/study.h"

namespace noisemark::reports {

/// quality.md: the verdict and its reasons, the gates with their intervals, what the seeds could
/// show, other figures, every timestep, every seed, the runs. A pure function, byte for byte; it
/// names no path, so that a folder can be moved.
[[nodiscard]] std::string quality_markdown(const QualityStudy& study);

/// One line for a terminal: "quality: INCONCLUSIVE: 2 PASS, 1 INCONCLUSIVE".
[[nodiscard]] std::string quality_line(const QualityStudy& study);

}  // namespace noisemark::reports
