#pragma once

#include <string>

#include "suite/config/lock.h"

namespace noisemark::suite {

/// Lists what can be run, for people, and names what `lock` does not hold.
[[nodiscard]] std::string list_text(const Lock& lock = shipped_lock());
/// Lists the same for programs, with the resolved canonical definitions, their hashes and whether
/// `lock` holds them.
[[nodiscard]] std::string list_json(const Lock& lock = shipped_lock());

}  // namespace noisemark::suite
