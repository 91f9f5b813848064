#pragma once

#include <string>

namespace noisemark::reports {

/// The time of day as results carry it: "2026-01-31T23:59:59Z".
[[nodiscard]] std::string utc_now();

}  // namespace noisemark::reports
