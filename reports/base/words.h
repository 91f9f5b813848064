#pragma once

#include <string_view>

/// Words that stand on many pages.
namespace noisemark::reports {

/// The cell of a table for a value that is missing. "none" is the name of a memory mode.
inline constexpr std::string_view kMissing = "\u2013";

/// The last line of a page that does not define its words itself.
inline constexpr std::string_view kGlossaryLine =
    "\nNoisemark's glossary defines the words of this page: `suite/README.md`.\n";

}  // namespace noisemark::reports
