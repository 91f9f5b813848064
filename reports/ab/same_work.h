#pragma once

#include "reports/result.h"

namespace noisemark::reports {

/// What two builds must agree in to do the same work on the same machine, by path in result.json:
/// cell, definition, data, settings, hardware and initial weights. Software is left out, for it may
/// be what is compared.
[[nodiscard]] Strings same_work(const Result& result);

/// What tells builds apart: commit, digest of the program, software.
[[nodiscard]] Strings about_build(const Result& result);

}  // namespace noisemark::reports
