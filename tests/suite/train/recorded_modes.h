#pragma once

#include <string>
#include <vector>

#include "memopt/modes/mode.h"

namespace noisemark::suite::test {

/// The modes of the table (memopt/modes/mode.h) whose steps a device may repeat alone, and some
/// that are composed of them.
inline std::vector<std::string> recorded_modes() {
  std::vector<std::string> recorded;
  for (const memopt::ModeEntry& entry : memopt::modes()) {
    if (memopt::why_host_is_needed(entry.name).empty()) recorded.emplace_back(entry.name);
  }
  return recorded;
}
inline std::vector<std::string> composed_recorded_modes() {
  return {"mirror:sqrt+echo", "echo+dpr8", "mirror+echo+dpr16"};
}

}  // namespace noisemark::suite::test
