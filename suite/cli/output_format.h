#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/export/figures.h"
#include "suite/cli/arguments.h"

namespace noisemark::suite {

/// The word behind an option that takes one of a few, the first when it was not given. Throws Error
/// (exit code 2) for another; for "gha", which could be either of two formats, it says which.
[[nodiscard]] std::string one_of(const Arguments& arguments, std::string_view command,
                                 const std::string& flag, const std::vector<std::string>& words);

/// The formats that programs follow figures by: "gha-smaller", "gha-bigger", "bmf", "ctest".
[[nodiscard]] const std::vector<std::string>& figure_formats();

/// `figures` in one of figure_formats(). Throws std::logic_error for another word.
[[nodiscard]] std::string figures_text(const std::string& format,
                                       const std::vector<reports::Figure>& figures);

/// Hands `text` over: writes it to the file behind --out, and then nothing is left for the standard
/// output. Throws Error (cannot write).
[[nodiscard]] std::string deliver(const Arguments& arguments, std::string text);

}  // namespace noisemark::suite
