#pragma once

#include <string>

#include "suite/config/lock.h"

namespace noisemark::suite {

/// What can be run, for people; with what `lock` does not hold named.
[[nodiscard]] std::string list_text(const Lock& lock = shipped_lock());
/// The same for programs, with the resolved canonical definitions, their hashes and whether `lock`
/// holds them.
[[nodiscard]] std::string list_json(const Lock& lock = shipped_lock());

}  // namespace noisemark::suite
