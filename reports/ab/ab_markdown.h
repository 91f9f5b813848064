#pragma once

#include <string>

#include "reports/ab/judge.h"

namespace noisemark::reports {

/// A comparison of two builds for people: the verdict and its reasons, what the builds are, the
/// gate with its interval, every pair, what has no noise, the noise, what to do next. A pure
/// function, byte for byte.
[[nodiscard]] std::string ab_markdown(const AbRecord& record, const AbVerdict& verdict);

}  // namespace noisemark::reports
