#pragma once

#include <string>

namespace noisemark::suite {

/// What can be run, for people.
[[nodiscard]] std::string list_text();
/// The same for programs, with the resolved canonical definitions, their hashes and whether LOCK
/// holds them.
[[nodiscard]] std::string list_json();

}  // namespace noisemark::suite
