#pragma once

#include <chrono>
#include <string>

namespace noisemark::reports {

/// The time of day as results carry it: "2026-01-31T23:59:59Z"; `ahead` of now.
[[nodiscard]] std::string utc_now(std::chrono::seconds ahead = {});

}  // namespace noisemark::reports
