#include "reports/utc_now.h"

#include <fmt/chrono.h>

#include <ctime>

namespace noisemark::reports {

std::string utc_now(std::chrono::seconds ahead) {
  const std::time_t time = std::time(nullptr) + ahead.count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time));
}

}  // namespace noisemark::reports
